"""Models split over several files, NAME-00001-of-0000N.gguf, as llama.cpp's gguf-split writes them."""

import re
from pathlib import Path
from typing import NoReturn

from edgellm.errors import ModelFileError
from edgellm.fmt import printable, shown_path
from edgellm.gguf.part import GGUFPart, open_part

_MAGIC, _SEARCHED_BYTES = b"GGUF", 4096
_NAME = re.compile(r"(?P<stem>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf", re.DOTALL)


def open_parts(path: Path) -> list[GGUFPart]:
    """Open all parts of the model that `path` is a part of, in order; the first has the metadata.

    Raises ModelFileError, which names the part that is missing, damaged or of another model.
    """
    given = open_part(path)
    count = _split_int(given, "split.count", 1)
    if count <= 1:
        return [given]
    if _is_followed(given):
        problem = "is several parts of a split model, one after the other in one file"
        _fail(path, f"{problem}; get the parts and open the first, or merge them with `llama-gguf-split --merge`")
    name = _NAME.fullmatch(path.name)
    if not name or int(name["count"]) != count:
        number = _split_int(given, "split.no") + 1
        _fail(path, f"is part {number} of {count}; give it back its name, -{number:05}-of-{count:05}.gguf")
    parts = []
    for number in range(1, count + 1):
        sibling = path.with_name(f"{name['stem']}-{number:05}-of-{count:05}.gguf")
        parts.append(given if sibling == path else _open_sibling(sibling, path))
        _check_part(parts[-1], number, count)
    _check_whole(parts)
    return parts


def _is_followed(part: GGUFPart) -> bool:
    """Whether another GGUF file follows in the same file, as after `cat`; padding may lie between them."""
    end = max((tensor.offset + tensor.nbytes for tensor in part.tensors.values()), default=None)
    return end is not None and _MAGIC in bytes(memoryview(part.map)[end : end + _SEARCHED_BYTES])


def _open_sibling(path: Path, given: Path) -> GGUFPart:
    if not path.exists():
        _fail(given, f"needs {printable(path.name)}, another part of the model; put it beside this one")
    return open_part(path)


def _check_part(part: GGUFPart, number: int, count: int) -> None:
    if (_split_int(part, "split.no"), _split_int(part, "split.count")) != (number - 1, count):
        _fail(part.path, f"says itself that it is not part {number} of {count}; download all parts again")


def _check_whole(parts: list[GGUFPart]) -> None:
    names: set[str] = set()
    for part in parts:
        for name in names & part.tensors.keys():
            _fail(part.path, f"repeats tensor {printable(name)} of a part before it; download it again")
        names |= part.tensors.keys()
    total = _split_int(parts[0], "split.tensors.count", len(names))
    if total != len(names):
        _fail(parts[0].path, f"all parts have {len(names)} tensors, not {total}; download all parts again")


def _split_int(part: GGUFPart, key: str, default: int | None = None) -> int:
    value = part.metadata.get(key, default)
    if type(value) is not int:
        _fail(part.path, f"has no integer {key}, which every part of a split model has; download it again")
    return value


def _fail(path: Path, problem: str) -> NoReturn:
    raise ModelFileError(f"{shown_path(path)}: {problem}")
