"""Child processes that compile kernels, on all cores that we may use: Numba compiles under one lock."""

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

_TELL_S = 0.2

_Made = tuple[str, bytes]
"""The name of a kernel and its object code."""

_LONG = ("attention", "matmul")
"""How the names of kernels begin that take seconds, where others take tenths. They go first: every core is busy to
the end."""


def compile_missing(names: Sequence[str], made: Callable[[str, bytes], None], tell: Callable[[int], None]) -> None:
    """Compile kernels: `made(name, object code)` of each, and now and then `tell(how many)`, in this thread.

    Both may raise, which ends it. Raises KernelError.
    """
    tell(0)
    done, news = 0, SimpleQueue[_Made | Future[None] | None]()
    waiting = deque(sorted(names, key=lambda name: not name.startswith(_LONG)))
    # Each process takes 150 to 310 MiB; one has time enough for all kernels that are not long.
    processes = min(_usable_cpus(), len(names), sum(name.startswith(_LONG) for name in names) + 1)
    children: list[subprocess.Popen[str]] = []
    with ThreadPoolExecutor(processes) as pool:
        compilers = {pool.submit(_compile_in_child, waiting, news.put, children) for _ in range(processes)}
        for future in list(compilers):
            future.add_done_callback(news.put)
        try:
            while compilers:
                match _next(news):
                    case Future() as ended:
                        compilers.remove(ended)
                        ended.result()
                    case name, code:
                        made(name, code)
                        done += 1
                tell(done)
        finally:  # after an error or Ctrl-C, what has not begun need not begin, and what has need not end
            waiting.clear()
            for child in children:
                child.terminate()


def _next(news: "SimpleQueue[_Made | Future[None] | None]") -> _Made | Future[None] | None:
    """The next of the news, or None if there is none for a moment."""
    with suppress(Empty):
        return news.get(timeout=_TELL_S)
    return None


def _usable_cpus() -> int:
    """CPUs that the system lets this process use, where it tells."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _end(returncode: int) -> str:
    """How a compiler ended that said nothing."""
    if returncode == -9:  # SIGKILL, which Windows does not name
        return "its process was killed, perhaps for lack of memory: close other programs and try again"
    return f"its process ended with signal {-returncode}" if returncode < 0 else "no message"


def _compile_in_child(
    waiting: deque[str], made: Callable[[_Made], None], children: list[subprocess.Popen[str]]
) -> None:
    """Compile those that wait, one by one, in a process of its own, added to `children`."""
    # -P: or else Python would look for modules in the user's current folder first, whatever lies there.
    command = [sys.executable, "-P", "-m", "kquants.compiler.compile", fingerprint()]
    root = str(Path(__file__).parents[2])
    paths = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
    # What this process found out about the CPU holds there, too.
    cpu = {"NUMBA_CPU_NAME": cpu_name(), "NUMBA_CPU_FEATURES": cpu_features()}
    environment = {**os.environ, "PYTHONPATH": paths, **cpu}
    name, pipe = "", subprocess.PIPE
    with tempfile.TemporaryFile("w+") as errors:
        with (
            suppress(IndexError, BrokenPipeError),  # none waits any more, or the child has ended
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
                    made((name, base64.b64decode(line)))
        errors.seek(0)
        last = (errors.read().strip().splitlines() or [_end(child.returncode)])[-1]
    if child.returncode == CHANGED:
        raise KernelError(CHANGED_MESSAGE)
    if child.returncode != 0:
        raise KernelError(f"compiling {name} failed: {last}")
