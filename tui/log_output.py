"""Redirects what libraries print to a log, so that the terminal shows the screen alone.

wgpu, Mesa and llama.cpp write to the file descriptors 1 and 2 directly, so that these descriptors are redirected.
"""

from __future__ import annotations

import faulthandler
import io
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_MAX_BYTES = 1 << 20
_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class _Terminal(io.FileIO):
    """The terminal behind descriptor 1. After its window is closed, output is lost without an error.

    An error would end the thread of Textual's driver, and the app would wait for it forever.
    """

    def write(self, data: ReadableBuffer, /) -> int:
        """Write to the terminal, if it is still there."""
        with suppress(OSError):
            return super().write(data)
        return memoryview(data).nbytes


@contextmanager
def output_to_log(log: Path) -> Iterator[None]:
    """A context in which the descriptors 1 and 2 lead to `log`.

    `sys.__stdout__` and `sys.__stderr__`, to which Textual's driver writes, lead to the former descriptor 1. A log of
    1 MiB or more is first renamed to end in `.1`. If no log can be written, output is discarded.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    descriptor = _open(log)
    saved = [os.dup(1), os.dup(2)]
    python = sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__
    terminal = io.TextIOWrapper(io.BufferedWriter(_Terminal(os.dup(saved[0]), "w")), encoding="utf-8")
    with terminal, os.fdopen(descriptor, "a", encoding="utf-8") as file:
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        sys.__stdout__ = sys.__stderr__ = terminal  # type: ignore[misc]
        faulthandler.enable(file)
        try:
            with _logging_to(file):
                yield
        finally:
            faulthandler.disable()
            sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__ = python  # type: ignore[misc]
            for place, descriptor in enumerate(saved, 1):
                os.dup2(descriptor, place)
                os.close(descriptor)


@contextmanager
def errors_to_log(log: Path) -> Iterator[None]:
    """A context in which warnings and tracebacks go to `log`, without a redirection of descriptors."""
    with os.fdopen(_open(log), "a", encoding="utf-8") as file, _logging_to(file):
        yield


@contextmanager
def _logging_to(file: TextIO) -> Iterator[None]:
    logging.basicConfig(stream=file, level=logging.WARNING, format=_FORMAT, force=True)
    logging.captureWarnings(True)
    try:
        yield
    finally:
        logging.captureWarnings(False)
        logging.basicConfig(handlers=[logging.NullHandler()], force=True)


def _open(log: Path) -> int:
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        if log.exists() and log.stat().st_size >= _MAX_BYTES:
            log.replace(log.with_name(f"{log.name}.1"))
        return os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    except OSError:
        return os.open(os.devnull, os.O_WRONLY)
