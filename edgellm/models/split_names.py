"""Names of the parts of split models: STEM-00001-of-0000N.gguf."""

import re
from pathlib import Path

_PART = re.compile(r"(?P<stem>.*)-\d{5}-of-(?P<count>\d{5})", re.DOTALL)


def split_name(name: str) -> tuple[str, str]:
    """The name of a model by that of its file without the ending, and the number of its parts, "" if it has one."""
    part = _PART.fullmatch(name)
    return (part["stem"], part["count"]) if part else (name, "")


def part_name(stem: str, number: int, count: str, ending: str) -> str:
    """The name of a part of a split model; `count` as `split_name` gives it."""
    return f"{stem}-{number:05}-of-{count}{ending}"


def first_part(path: Path) -> Path:
    """The first part of the split model that a file is a part of, there or not; any other file itself."""
    stem, count = split_name(path.stem)
    return path.with_name(part_name(stem, 1, count, path.suffix)) if count else path
