"""A child process as its parent sees it; what one with a GPU does is in test_gpu_process."""

import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import psutil
import pytest

from edgellm.errors import EdgeLLMError
from edgellm.process import child
from edgellm.process.shared_memory import SharedMemory

MODULE = "edgellm.engine.gpu_worker"


class ChildProcess(child.ChildProcess):
    stop_timeout_s = 0.5

    def ended_error(self, how: str) -> Exception:
        return EdgeLLMError(f"it {how}")


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGSTOP")
def test_one_that_reads_nothing_is_stopped_all_the_same() -> None:
    """More is to be written than the pipe holds; an interrupt in the thread that asks takes the same way."""
    asked = ChildProcess(MODULE)
    psutil.Process(asked.pid).send_signal(signal.SIGSTOP)
    stopper = threading.Timer(0.2, asked.stop)
    stopper.start()
    with pytest.raises(EdgeLLMError, match=r"it did not stop within 0\.5 s and was killed"):
        asked.call(0, bytes(1 << 20))
    stopper.join()
    asked.close()
    assert not psutil.pid_exists(asked.pid)


def test_one_that_cannot_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/no/python")
    with pytest.raises(EdgeLLMError, match="it could not be started"):
        ChildProcess(MODULE)


def test_it_answers_a_thread_that_outlives_the_main_one() -> None:
    code = f"""
import threading, time
from edgellm.engine.gpu_process import packed
from edgellm.process.child import ChildProcess
from edgellm.process.shared_memory import SharedMemory
memory = SharedMemory.create()
child = ChildProcess({MODULE!r}, memory.argument, inherited=memory.inherited)
def ask():
    threading.main_thread().join()
    time.sleep(0.2)
    print(child.call(0, packed(("ensure_pages", (3,))))[0])
threading.Thread(target=ask).start()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert (done.stdout, done.stderr) == ("1\n", "")


SHARES = """
import sys
from edgellm.process.shared_memory import SharedMemory
memory = SharedMemory.attach(sys.argv[1])
for line in sys.stdin:
    nbytes = int(line)
    memory.array(nbytes)[nbytes - 2 :] += 1
    print(nbytes, flush=True)
"""


def test_memory_is_shared_and_grows() -> None:
    """What one side writes the other one reads, whichever of them asks for more first; what was there remains."""
    memory = SharedMemory.create()
    command = [sys.executable, "-c", SHARES, memory.argument]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, pass_fds=memory.inherited, **pipes) as process:
        assert process.stdin
        assert process.stdout
        own = memory.array(100)
        own[98:] = 7
        for nbytes in (100, 10_000):
            process.stdin.write(f"{nbytes}\n")
            process.stdin.flush()
            assert process.stdout.readline() == f"{nbytes}\n"
        assert memory.array(100)[98:].tolist() == own[98:].tolist() == [8, 8]
        assert memory.array(10_000)[9_997:].tolist() == [0, 1, 1]
        process.kill()
    memory.close()
    memory.close()


@pytest.mark.skipif(sys.platform != "linux", reason="looks into Linux's folders of shared memory")
def test_shared_memory_has_no_name_that_a_killed_process_would_leave() -> None:
    before = {path.name for path in Path("/dev/shm").iterdir()}
    memory = SharedMemory.create()
    memory.array(1 << 16)[:] = 1
    assert {path.name for path in Path("/dev/shm").iterdir()} <= before
    assert "(deleted)" in str(Path(f"/proc/self/fd/{memory.inherited[0]}").readlink())
    memory.close()
