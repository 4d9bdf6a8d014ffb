"""Keeps the terminal for the screen: what libraries print to the process's stdout and stderr goes to a log.

wgpu, Mesa and llama.cpp write to file descriptors 1 and 2 themselves, past Python: only other descriptors under these
numbers keep their words off the screen.
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

_ROTATE = 1 << 20
_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class _Terminal(io.FileIO):
    """Where 1 led. When the window is closed, what is written to it is lost: the driver's thread would end by an
    error, and the app wait for it without end.
    """

    def write(self, data: ReadableBuffer, /) -> int:
        """Write it if there is anybody to read it."""
        with suppress(OSError):
            return super().write(data)
        return memoryview(data).nbytes


@contextmanager
def output_to_log(log: Path) -> Iterator[None]:
    """While inside, descriptors 1 and 2 lead to `log`, `sys.__stdout__` and `sys.__stderr__` to where 1 led before.

    Textual's driver writes to the latter. A log that has grown to 1 MiB becomes `.1` beside it first. Where there can
    be no log, the words go nowhere.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    descriptor = _open(log)
    kept = [os.dup(1), os.dup(2)]
    python = sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__
    terminal = io.TextIOWrapper(io.BufferedWriter(_Terminal(os.dup(kept[0]), "w")), encoding="utf-8")
    with terminal, os.fdopen(descriptor, "a", encoding="utf-8") as file:
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        sys.__stdout__ = sys.__stderr__ = terminal  # type: ignore[misc]
        faulthandler.enable(file)
        try:
            with _recorded(file):
                yield
        finally:
            faulthandler.disable()
            sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__ = python  # type: ignore[misc]
            for place, descriptor in enumerate(kept, 1):
                os.dup2(descriptor, place)
                os.close(descriptor)


@contextmanager
def errors_to_log(log: Path) -> Iterator[None]:
    """While inside, warnings and errors in full go to `log`; descriptors stay as they are."""
    with os.fdopen(_open(log), "a", encoding="utf-8") as file, _recorded(file):
        yield


@contextmanager
def _recorded(file: TextIO) -> Iterator[None]:
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
        if log.exists() and log.stat().st_size >= _ROTATE:
            log.replace(log.with_name(f"{log.name}.1"))
        return os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    except OSError:
        return os.open(os.devnull, os.O_WRONLY)
