"""A process that was forked while a model computes: what belongs to the other process tells so, and never hangs."""

import os
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

PYTHON = [sys.executable, "-W", "ignore::DeprecationWarning", "-c"]
"""From 3.12 on, Python warns of a fork beside threads."""

# A thread generates without end while the main one forks a process for each try; what it tells, or raises, is printed.
PROGRAM = """
import os, signal, sys, threading
from multiprocessing import get_context
from edgellm import Model

engine, over = sys.argv[1], threading.Event()
model = Model.open("builtin", engine=engine, threads=2)
whole = model.generate("Hello", max_tokens=8, temp=0).text
chat = model.chat()
running = model.stream("What is a token?", max_tokens=400)
next(running)

def write():
    while not over.is_set():
        model.generate("Hello", max_tokens=100, temp=0, stop=())

def text(model):
    return "the same" if model.generate("Hello", max_tokens=8, temp=0).text == whole else "another text"

def anew():
    with Model.open("builtin", engine=engine, threads=2) as own:
        return text(own)

def close():
    running.cancel()
    running.close()
    with model:
        pass
    model.close()
    return "closed"

TRIES = {
    "generate": lambda: text(model),
    "next": lambda: next(running),
    "chat": lambda: chat.send("Hello"),
    "logits": lambda: model.logits([1, 2]),
    "sequence": lambda: model.engine.forward([]),
    "count": lambda: "counted" if chat.count([{"role": "user", "content": "Hi"}]) else "nothing",
    "anew": anew,
    "close": close,
}

def attempt(name):
    signal.alarm(30)
    try:
        print(f"{name}: {TRIES[name]()}", flush=True)
    except Exception as error:
        print(f"{name}: {type(error).__name__}: {error}", flush=True)

writer = threading.Thread(target=write)
writer.start()
for name in sys.argv[2:]:
    process = get_context("fork").Process(target=attempt, args=(name,))
    process.start()
    process.join()
    if process.exitcode:
        print(name, "ended with", process.exitcode)
child = os.fork()
if not child:
    sys.exit()  # by way of what Python does at exit
print("exit", os.waitpid(child, 0)[1])
over.set()
writer.join()
print("here:", text(model))
model.close()
"""


def tried(engine: str, names: Sequence[str]) -> dict[str, str]:
    """What each try told."""
    command = [*PYTHON, PROGRAM, engine, *names]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    lines = [line.split(": ", 1) for line in done.stdout.splitlines()]
    assert ["exit 0"] in lines
    return dict(line for line in lines if len(line) > 1)


def test_a_model_of_the_other_process() -> None:
    names = ["generate", "next", "chat", "logits", "sequence", "count", "anew", "close"]
    told = tried("edgellm", names)
    assert list(told) == [*names, "here"]
    for name in ("generate", "next", "chat", "logits", "sequence"):
        assert told[name].startswith("EdgeLLMError: the "), told[name]
        assert "was opened before this process was forked" in told[name]
        assert 'start processes in another way (multiprocessing.set_start_method("spawn"))' in told[name]
    rest = {"count": "counted", "anew": "the same", "close": "closed", "here": "the same"}
    assert rest.items() <= told.items()


@pytest.mark.skipif(find_spec("llama_cpp") is None, reason="needs llama-cpp-python")
def test_a_model_that_is_in_a_process_of_its_own() -> None:
    told = tried("llama.cpp", ["generate", "sequence", "close"])
    assert "was opened before this process was forked" in told["generate"]
    assert (told["close"], told["here"]) == ("closed", "the same")


def test_a_process_of_ours_stays_with_the_one_that_started_it() -> None:
    """The other may go on for long: without the ends of the pipes that it got, ours ends when it is closed."""
    code = """
import os
from edgellm.engine.gpu_process import packed
from edgellm.process import child
from edgellm.process.shared_memory import SharedMemory
class ChildProcess(child.ChildProcess):
    def ended_error(self, how):
        return RuntimeError(f"it {how}")
memory = SharedMemory.create()
ours = ChildProcess("edgellm.engine.gpu_worker", memory.argument, inherited=memory.inherited)
print(ours.call(0, packed(("ensure_pages", (3,))))[0], flush=True)
told, over = os.pipe(), os.pipe()
if not os.fork():
    os.close(over[1])
    ours.stop()
    ours.clear_stop()
    try:
        ours.call(0)
    except RuntimeError as error:
        print(error, flush=True)
    os.write(told[1], b".")
    os.read(over[0], 1)
    ours.close()
    os._exit(0)
os.close(over[0])
os.read(told[0], 1)
print(ours.call(0, packed(("ensure_pages", (3,))))[0], flush=True)
ours.close()
print(ours._process.returncode, flush=True)
os.close(over[1])
os.wait()
"""
    done = subprocess.run([*PYTHON, code], capture_output=True, text=True, timeout=60, check=True)
    words = ["1", "it belongs to the process from which this one was forked", "1", "0"]
    assert (done.stdout.splitlines(), done.stderr) == (words, "")
