"""Compile workers: child processes that compile kernels on all cores; within one process Numba has one lock."""

import base64
import os
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue

from kquants.compiler.errors import CHANGED, CHANGED_MESSAGE, KernelError
from kquants.compiler.fingerprint import fingerprint
from kquants.compiler.host import cpu_features, cpu_name

_PROGRESS_S = 0.2

_Compiled = tuple[str, bytes]
"""The name of a kernel and its object code."""

_Event = _Compiled | Future[None] | None
"""A compiled kernel, or a worker that has ended; None where nothing happened for a moment."""

_SLOW = ("attention", "matmul")
"""Prefixes of the names of kernels that take seconds to compile; others take tenths. Slow ones go first, so that all
cores are busy to the end."""


def compile_missing(
    names: Sequence[str], on_compiled: Callable[[str, bytes], None], on_progress: Callable[[int], None]
) -> None:
    """Compile kernels: `on_compiled(name, object code)` for each, and every 0.2 s or sooner `on_progress(compiled)`.

    Both are called in this thread, and an error that one raises ends the compilation. Raises KernelError.
    """
    on_progress(0)
    compiled, events = 0, SimpleQueue[_Event]()
    waiting = deque(sorted(names, key=lambda name: not name.startswith(_SLOW)))
    # A process takes 150 to 310 MiB; one has time enough for all kernels that are not slow.
    processes = min(_usable_cpus(), len(names), sum(name.startswith(_SLOW) for name in names) + 1)
    children: list[subprocess.Popen[str]] = []
    with ThreadPoolExecutor(processes) as pool:
        workers = {pool.submit(_run_worker, waiting, events.put, children) for _ in range(processes)}
        for future in list(workers):
            future.add_done_callback(events.put)
        try:
            while workers:
                match _next(events):
                    case Future() as ended:
                        workers.remove(ended)
                        ended.result()
                    case name, code:
                        on_compiled(name, code)
                        compiled += 1
                on_progress(compiled)
        finally:  # after an error or Ctrl-C no worker may begin another kernel, nor finish the one it compiles
            waiting.clear()
            for child in children:
                child.terminate()


def _next(events: "SimpleQueue[_Event]") -> _Event:
    with suppress(Empty):
        return events.get(timeout=_PROGRESS_S)
    return None


def _usable_cpus() -> int:
    """CPUs that the system lets this process use, where it tells; else all."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _exit_reason(returncode: int) -> str:
    """Why a worker ended that printed no message."""
    if returncode == -9:  # SIGKILL, which Windows does not name
        return "its process was killed, perhaps for lack of memory: close other programs and try again"
    return f"its process ended with signal {-returncode}" if returncode < 0 else "no message"


def _run_worker(
    waiting: deque[str], on_compiled: Callable[[_Compiled], None], children: list[subprocess.Popen[str]]
) -> None:
    """Compile waiting kernels, one by one, in a process of its own, which is added to `children`."""
    # -P: otherwise Python would look for modules in the user's current folder first.
    command = [sys.executable, "-P", "-m", "kquants.compiler.compile", fingerprint()]
    root = str(Path(__file__).parents[2])
    paths = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
    # The worker compiles for the CPU that this process has found.
    cpu = {"NUMBA_CPU_NAME": cpu_name(), "NUMBA_CPU_FEATURES": cpu_features()}
    environment = {**os.environ, "PYTHONPATH": paths, **cpu}
    name, pipe = "", subprocess.PIPE
    with tempfile.TemporaryFile("w+") as errors:
        with (
            suppress(IndexError, BrokenPipeError),  # no kernel is waiting any more, or the child has ended
            subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, stderr=errors, text=True) as child,
        ):
            children.append(child)
            assert child.stdout
            line = "\n"
            while line.endswith("\n"):
                name = waiting.popleft()
                print(name, file=child.stdin, flush=True)
                line = child.stdout.readline()
                if line.endswith("\n"):
                    on_compiled((name, base64.b64decode(line)))
        errors.seek(0)
        last = (errors.read().strip().splitlines() or [_exit_reason(child.returncode)])[-1]
    if child.returncode == CHANGED:
        raise KernelError(CHANGED_MESSAGE)
    if child.returncode != 0:
        raise KernelError(f"compiling {name} failed: {last}")
