"""Names of the parts of split models: STEM-00001-of-0000N.gguf."""

import re
from pathlib import Path

_PART = re.compile(r"(?P<stem>.*)-\d{5}-of-(?P<count>\d{5})", re.DOTALL)


def split_name(name: str) -> tuple[str, str]:
    """The name of a model and the number of its parts, from the name of a file without extension.

    The number of parts has five digits; it is empty for a model in one file.
    """
    part = _PART.fullmatch(name)
    return (part["stem"], part["count"]) if part else (name, "")


def part_name(stem: str, number: int, count: str, ending: str) -> str:
    """The name of a part of a split model; `count` has five digits, as from `split_name`."""
    return f"{stem}-{number:05}-of-{count}{ending}"


def first_part(path: Path) -> Path:
    """The path of the first part of the split model that `path` is a part of, or `path` itself if it is no part."""
    stem, count = split_name(path.stem)
    return path.with_name(part_name(stem, 1, count, path.suffix)) if count else path
