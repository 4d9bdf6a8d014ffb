"""Explains errors of the operating system and of Python that may occur anywhere, in one line with advice."""

import errno
import os
from collections.abc import Iterator

_NO_MEMORY = "there is not enough memory: close other programs, or choose a smaller model or a smaller context"
_TOO_MANY_OPEN = "too many files are open: close other programs, or raise the limit (ulimit -n)"
_NO_THREAD = "the system allows no more threads: close other programs, or raise the limit (ulimit -u)"
_NESTED = "an input is nested too deeply, or contains itself: check its brackets and values"

_BY_TYPE = {MemoryError: _NO_MEMORY, RecursionError: _NESTED}
_BY_ERRNO = {errno.ENOMEM: _NO_MEMORY, errno.EMFILE: _TOO_MANY_OPEN, errno.ENFILE: _TOO_MANY_OPEN}
_BY_TEXT = {
    "can't start new thread": _NO_THREAD,
    "failed to map segment": _NO_MEMORY,
    **{os.strerror(number): advice for number, advice in _BY_ERRNO.items()},
}
"""Parts of messages of Python and of the dynamic loader, whose errors have no errno."""


def explain_error(error: BaseException) -> str:
    """What a user can do about an error of memory, threads, open files or nesting; empty for all other errors."""
    return next(filter(None, map(_explained, _causes(error))), "")


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error and its causes: packages raise errors of their own when a library cannot be loaded."""
    while error:
        yield error
        error = error.__cause__ or error.__context__


def _explained(error: BaseException) -> str:
    for kind, advice in _BY_TYPE.items():
        if isinstance(error, kind):
            return advice
    if isinstance(error, OSError) and error.errno in _BY_ERRNO:
        return _BY_ERRNO[error.errno]
    if isinstance(error, ImportError | OSError | RuntimeError):
        return next((advice for text, advice in _BY_TEXT.items() if text in str(error)), "")
    return ""
