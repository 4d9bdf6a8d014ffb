"""Files that the user names, and their form in a message."""

import errno
import os
import re
from collections.abc import Iterable
from pathlib import Path

from edgellm.errors import EdgeLLMError
from edgellm.fmt import shown_path
from edgellm.system.text_input import decode_input, read_input

_ESCAPED = re.compile(r"""\\([\s'"\\])""")
_BACKTICKS = re.compile(r"`{3,}")


def typed_name(argument: str) -> str:
    """The file name that is the whole argument of a command: in quotes, or with escapes as completion writes them."""
    if len(argument) > 1 and argument[0] == argument[-1] and argument[0] in "'\"":
        return argument[1:-1]
    return unescaped(argument)


def unescaped(name: str) -> str:
    """A file name without the escapes of completion; a backslash before other characters is literal, as in Windows."""
    return _ESCAPED.sub(r"\1", name)


def typed_path(name: str) -> Path:
    """The path that was typed, with `~` expanded. Raises EdgeLLMError for a name that no file can have."""
    try:
        path = Path(name).expanduser()
        path.stat()
    except RuntimeError:
        raise EdgeLLMError(f"{shown_path(name)}: there is no such user; give the whole path") from None
    except ValueError:  # "\0" in it, or half a surrogate pair
        raise EdgeLLMError(f"{shown_path(name)}: no file can have this name; give another one") from None
    except OSError:  # raised again where the file is opened
        pass
    return path


def text_of(name: str, advice: str) -> str:
    """The text of the file that was typed. Raises EdgeLLMError, with `advice` if the file is too long."""
    return decode_input(read_input(str(typed_file(name))), name, advice)


def typed_file(name: str) -> Path:
    """The path of a file to read that was typed. Raises EdgeLLMError for one that is known to be none.

    One that cannot be read is an error where it is read.
    """
    path = typed_path(name)
    if os.path.exists(path) and not os.path.isfile(path):  # noqa: PTH110, PTH113 (those of `Path` may raise OSError)
        # Reading a pipe may never return.
        problem = os.strerror(errno.EISDIR) if os.path.isdir(path) else "is no file"  # noqa: PTH112
        raise EdgeLLMError(f"{shown_path(name)}: {problem}; give a text file")
    return path


def write_new(path: Path, text: str) -> None:
    """Write a new file, all of it or nothing. Raises EdgeLLMError, also if the file exists."""
    created = False
    try:
        with path.open("x", encoding="utf-8") as file:
            created = True
            file.write(text)
    except FileNotFoundError as error:
        raise EdgeLLMError(f"there is no folder {shown_path(path.parent)}; give another one") from error
    except OSError as error:
        if created:
            path.unlink(missing_ok=True)
        advice = "make room" if error.errno == errno.ENOSPC else "give another name"
        raise EdgeLLMError(f"{shown_path(path)}: {error.strerror or error}; {advice}") from error


def with_files(text: str, files: Iterable[tuple[str, str]]) -> str:
    """A message as the model gets it: each file with its name, in a code block, and below them the text."""
    return "\n\n".join(part for part in [*(f"{name}:\n{fenced(content)}" for name, content in files), text] if part)


def fenced(content: str) -> str:
    """A code block whose fence is longer than any in the file, so that the file cannot end it."""
    longest = max(map(len, _BACKTICKS.findall(content)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}\n{content.rstrip()}\n{fence}"
