"""Texts that people give, as arguments, in files or on stdin: UTF-8, and not endless."""

from pathlib import Path

from edgellm.errors import EdgeLLMError

MAX_TEXT_BYTES = 64 << 20
"""Most bytes of a text: longer than any context, short enough for the memory."""


def read_input(path: str) -> bytes:
    """What is in a file, or as much of it as shows that it is too long. Raises EdgeLLMError."""
    if not path:  # which Python takes for the folder it is in
        raise EdgeLLMError("the name of the file is empty; give a text file")
    try:
        with Path(path).open("rb") as file:
            return file.read(MAX_TEXT_BYTES + 1)
    except OSError as error:
        raise input_error(path, f"{error.strerror or error}; give a text file") from None


def decode_utf8(data: bytes) -> str:
    """Bytes as text, less the byte order mark that some editors put before it. Raises UnicodeDecodeError."""
    return data.decode().removeprefix("\ufeff")


def decode_input(data: bytes, origin: str, advice: str) -> str:
    """Bytes from `origin` as `decode_utf8` text; `advice` is for one that is too long. Raises EdgeLLMError."""
    if len(data) > MAX_TEXT_BYTES:
        raise input_error(origin, f"is longer than {MAX_TEXT_BYTES >> 20} MiB; {advice}")
    try:
        return decode_utf8(data)
    except UnicodeDecodeError as error:
        raise input_error(origin, f"byte {error.start} is not UTF-8; convert it to UTF-8 text") from None


def input_error(origin: str, problem: str) -> EdgeLLMError:
    """An error that says where a text came from."""
    from edgellm.fmt import printable  # brings numpy

    return EdgeLLMError(f"{printable(origin, 400)}: {problem}")
