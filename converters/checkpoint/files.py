"""The small files of a checkpoint: plain names, bounded sizes, complete content."""

import json
import re
import stat
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, NoReturn

from edgellm.errors import ModelFileError
from edgellm.fmt import printable, shown_path, size
from edgellm.system.text_input import decode_utf8

LFS_POINTER = b"version https://git-lfs"
# Twice the largest tokenizer.json published. Parsed JSON takes eight times its size in memory.
_MAX_BYTES = 1 << 26
_MAX_DEPTH = 100  # levels of nesting: a configuration has five, and Python's own functions fail at some hundred
_HALF_OF_A_PAIR = re.compile(rb"\\u[dD][89a-fA-F]")


def fail(path: Path, problem: str) -> NoReturn:
    """Raise ModelFileError with the path before `problem`."""
    raise ModelFileError(f"{shown_path(path)}: {problem}")


def is_plain(name: str) -> bool:
    """Whether a name stays inside its folder on every operating system.

    It may name a link: the hub's cache consists of links to files outside of the folder.
    """
    parts = {PurePosixPath(name).name, PureWindowsPath(name).name}
    return parts == {name} and name not in ("", "..") and "\0" not in name


def read(folder: Path, name: str) -> bytes | None:
    """The content of a file, None if there is no such file. Raises ModelFileError if it is large or unreadable."""
    path = folder / name
    if not is_plain(name):
        fail(folder, f'names the file "{printable(name)}", which is outside of the folder; get another copy')
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            fail(path, "is not a regular file; download it again")
        if status.st_size > _MAX_BYTES:
            fail(path, f"has {size(status.st_size)}, too large for this file; download it again")
        content = path.read_bytes()
    except FileNotFoundError:
        if path.is_symlink():
            fail(path, "is a link to a file that is gone; download it again")
        return None
    except OSError as error:
        fail(path, f"cannot be read ({error.strerror}); check its permissions and disk")
    if content.startswith(LFS_POINTER):
        fail(path, "is a Git LFS pointer, not the file itself; run `git lfs pull`, or download it")
    return content


def read_text(folder: Path, name: str) -> str | None:
    """A file as text, with "\\n" as line end and without byte order mark; None if there is no such file.

    Raises ModelFileError.
    """
    content = read(folder, name)
    try:
        text = None if content is None else decode_utf8(content)
    except UnicodeDecodeError as error:
        fail(folder / name, f"is damaged: byte {error.start} is not UTF-8; download it again")
    return text and text.replace("\r\n", "\n").replace("\r", "\n")


def read_json(folder: Path, name: str) -> Any | None:
    """The value of a JSON file, whose strings are valid UTF-8; None if there is no such file. Raises ModelFileError."""
    content = read(folder, name)
    return None if content is None else parse_json(folder / name, content)


def parse_json(path: Path, content: bytes, part: str = "") -> Any:
    """Parse the JSON in the file `path`, or in the `part` of it that errors name. Raises ModelFileError."""
    try:
        value = json.loads(content)
        if _is_deep(value):
            raise RecursionError
        if _HALF_OF_A_PAIR.search(content):
            json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else printable(str(error), 120)
        fail(path, f"{part}is no valid JSON ({reason}); download it again")
    return value


def _is_deep(value: Any) -> bool:
    """Whether JSON has more than _DEEPEST levels of objects and lists."""
    level: list[Any] = [[value]]
    for _ in range(_MAX_DEPTH + 1):
        inner = (item for outer in level for item in (outer.values() if isinstance(outer, dict) else outer))
        level = [item for item in inner if isinstance(item, dict | list)]
    return bool(level)


def without_nulls(value: Any) -> Any:
    """JSON without keys whose value is null, at any depth: in a checkpoint, null means absent."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


def read_object(folder: Path, name: str) -> dict[str, Any] | None:
    """The object in a JSON file; None if there is no such file. Raises ModelFileError."""
    value = read_json(folder, name)
    if value is not None and not isinstance(value, dict):
        fail(folder / name, "must hold a JSON object; download it again")
    return value
