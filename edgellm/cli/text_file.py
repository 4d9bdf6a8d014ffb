"""The text files that commands read whole, and the time left for them."""

import sys

from edgellm.cli.prompt_input import STDIN, check_file_name
from edgellm.system.text_input import MAX_TEXT_BYTES, decode_text_file, read_input


def read_text(path: str, option: str = "") -> str:
    """The text of a file, or of stdin, without the end of its last line, as llama.cpp reads it.

    `option` is the one that names the file. Raises EdgeLLMError, and OptionError for an empty name.
    """
    check_file_name(path, option)
    if path == STDIN:
        data, path = sys.stdin.buffer.read(MAX_TEXT_BYTES + 1) if sys.stdin else b"", "stdin"
    else:
        data = read_input(path)
    return decode_text_file(data, path).removesuffix("\n")


def time_left(seconds: float, done: int, of: int) -> str:
    """The time that the rest will take, if `done` of `of` parts took `seconds`: `12 s left`."""
    left = seconds / done * (of - done)
    time = f"{left:.0f} s" if left < 100 else f"{left / 60:.0f} min" if left < 6000 else f"{left / 3600:.1f} h"
    return f"{time} left"
