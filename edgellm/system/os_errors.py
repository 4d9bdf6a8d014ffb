"""Errors of the system and of Python that may come from anywhere, in a line that says what to do."""

import errno
import os
from collections.abc import Iterator

_NO_MEMORY = "there is not enough memory: close other programs, or choose a smaller model or a smaller context"
_TOO_MANY_OPEN = "too many files are open: close other programs, or raise the limit (ulimit -n)"
_NO_THREAD = "this system lets us start no more threads: close other programs, or raise the limit (ulimit -u)"
_NESTED = "something that was given is nested too deeply, or holds itself: look at its brackets and its values"

_OF_KINDS = {MemoryError: _NO_MEMORY, RecursionError: _NESTED}
_OF_NUMBERS = {errno.ENOMEM: _NO_MEMORY, errno.EMFILE: _TOO_MANY_OPEN, errno.ENFILE: _TOO_MANY_OPEN}
_OF_WORDS = {
    "can't start new thread": _NO_THREAD,
    "failed to map segment": _NO_MEMORY,
    **{os.strerror(number): said for number, said in _OF_NUMBERS.items()},
}
"""Words of Python and of the loader of libraries, which give no numbers."""


def explain_error(error: BaseException) -> str:
    """What a person can do about an error of memory, threads, open files or nesting; "" for all others."""
    return next(filter(None, map(_explained, _causes(error))), "")


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error and those that led to it: packages tell of a library that cannot be loaded in words of their own."""
    while error:
        yield error
        error = error.__cause__ or error.__context__


def _explained(error: BaseException) -> str:
    for kind, said in _OF_KINDS.items():
        if isinstance(error, kind):
            return said
    if isinstance(error, OSError) and error.errno in _OF_NUMBERS:
        return _OF_NUMBERS[error.errno]
    if isinstance(error, ImportError | OSError | RuntimeError):
        return next((said for words, said in _OF_WORDS.items() if words in str(error)), "")
    return ""
