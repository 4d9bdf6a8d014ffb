"""Text from arguments, files and stdin: UTF-8, and limited in size."""

from pathlib import Path

from edgellm.errors import EdgeLLMError
from edgellm.fmt import shown_path

MAX_TEXT_BYTES = 64 << 20
"""More than any context takes, and little enough for the memory."""


_BINARY = "is a GGUF model or another binary file; give a text file"


def read_input(path: str) -> bytes:
    """The content of a file, at most MAX_TEXT_BYTES + 1 bytes. Raises EdgeLLMError."""
    if not path:  # Python would open the working folder
        raise EdgeLLMError("the name of the file is empty; give a text file")
    try:
        with Path(path).open("rb") as file:
            return file.read(MAX_TEXT_BYTES + 1)
    except OSError as error:
        if isinstance(error, FileNotFoundError):
            raise input_error(path, "there is no such file; check the path") from None
        raise input_error(path, f"{error.strerror or error}; give a text file") from None


def decode_utf8(data: bytes) -> str:
    """Decode UTF-8, without the byte order mark that some editors write. Raises UnicodeDecodeError."""
    return data.decode().removeprefix("\ufeff")


def decode_input(data: bytes, origin: str, advice: str) -> str:
    """Decode the bytes of a file, stdin or an argument, which `origin` names.

    Raises EdgeLLMError for bytes that are not UTF-8, and, with `advice`, for more than MAX_TEXT_BYTES.
    """
    if len(data) > MAX_TEXT_BYTES:
        if _is_binary(data):
            raise input_error(origin, _BINARY)
        raise input_error(origin, f"is longer than {MAX_TEXT_BYTES >> 20} MiB; {advice}")
    try:
        return decode_utf8(data)
    except UnicodeDecodeError as error:
        if _is_binary(data):
            raise input_error(origin, _BINARY) from None
        raise input_error(origin, f"byte {error.start} is not UTF-8; convert it to UTF-8 text") from None


def decode_text_file(data: bytes, origin: str) -> str:
    """Decode a text that is read as a whole, such as one to score. Raises EdgeLLMError, also for one without words."""
    if data.startswith(b"GGUF") and _is_binary(data):  # a short one may be UTF-8
        raise input_error(origin, _BINARY)
    text = decode_input(data, origin, "give a part of it")
    if not text.strip():
        raise input_error(origin, "is empty; give a text")
    return text


def _is_binary(data: bytes) -> bool:
    """Whether bytes that are no UTF-8 text have a zero byte near their start; UTF-16 with a byte order mark is text."""
    return b"\0" in data[:4096] and not data.startswith((b"\xff\xfe", b"\xfe\xff"))


def input_error(origin: str, problem: str) -> EdgeLLMError:
    """An error in a text from `origin`."""
    return EdgeLLMError(f"{shown_path(origin)}: {problem}")
