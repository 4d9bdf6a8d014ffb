"""The process that renders chat templates: it ends, is restarted, and gets no data that it does not need."""

import json
import os
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import psutil
import pytest

from edgellm.errors import EdgeLLMError
from edgellm.text.rendering.child import RenderingChild
from edgellm.text.rendering.codes import ANSWER, READY
from edgellm.text.rendering.limits import TOO_LARGE, TOO_LONG, RenderLimits
from edgellm.text.rendering.renderer import Renderer, renderer
from edgellm.text.rendering.watchdog import RenderWatchdog
from edgellm.text.template import ChatTemplate
from support import ROOT
from support.imports import HEAVY, loaded

USER = [{"role": "user", "content": "Hi"}]
ENDLESS = "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}"
posix = pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
linux = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


@pytest.fixture
def child() -> Iterator[psutil.Process]:
    """The process, idle."""
    renderer.close()
    before = {process.pid for process in psutil.Process().children()}
    ChatTemplate("x", "", "")
    (process,) = (process for process in psutil.Process().children() if process.pid not in before)
    yield process
    renderer.close()


def run(code: str, cwd: Path | None = None) -> str:
    """The output of a Python that runs `code` in a folder."""
    paths = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=60, cwd=cwd, env=paths, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_it_imports_nothing_heavy() -> None:
    modules = loaded("import edgellm.text.rendering.serve")
    assert not modules & (HEAVY - {"jinja2"})
    assert {name for name in modules if name.startswith("edgellm.")} <= {
        *(
            "edgellm.process",
            "edgellm.process.wire",
            "edgellm.text",
            "edgellm.text.utf8",
            "edgellm.text.rendering",
        ),
        *(
            f"edgellm.text.rendering.{name}"
            for name in ("codes", "formats", "limits", "sandbox", "serve", "tracked_text")
        ),
    }


@posix
@pytest.mark.parametrize("source", ["idle", ENDLESS])
def test_it_ends_with_its_parent_however_that_ends(source: str) -> None:
    code = f"""
import psutil, threading, time
from edgellm.text.template import ChatTemplate
ChatTemplate("x", "", "")
print(psutil.Process().children()[0].pid, flush=True)
ChatTemplate({source!r}, "", "").render([])
time.sleep(60)
"""
    parent = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert parent.stdout
    child = psutil.Process(int(parent.stdout.readline()))
    parent.kill()
    parent.wait()
    parent.stdout.close()
    psutil.wait_procs([child], timeout=30)
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE


@pytest.mark.parametrize(
    ("cpu_s", "memory", "verdict"), [(-1.0, 1 << 40, TOO_LONG), (float("inf"), -(1 << 30), TOO_LARGE)]
)
def test_the_parent_looks_at_it_too(cpu_s: float, memory: int, verdict: str) -> None:
    """Here only the parent enforces the limits, as on some systems."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    verdicts = SimpleQueue[str]()
    watcher = RenderWatchdog(process.pid, verdicts.put)
    try:
        with watcher.watching(RenderLimits(cpu_s, memory, text=0, runs=0)):
            assert verdicts.get(timeout=30) == verdict
    finally:
        watcher.close()
        process.kill()
        process.wait()


def test_one_that_was_killed_is_replaced(child: psutil.Process) -> None:
    child.kill()
    psutil.wait_procs([child])
    assert ChatTemplate("a{{ messages[0].content }}", "", "").render(USER).text == "aHi"


def test_a_rendering_can_be_stopped() -> None:
    template, failed = ChatTemplate("{% if endless %}" + ENDLESS + "{% endif %}ok", "", ""), list[str]()

    def render() -> None:
        with pytest.raises(EdgeLLMError) as error:
            template.render(USER, endless=True)
        failed.append(str(error.value))

    thread = threading.Thread(target=render)
    thread.start()
    while renderer._current is not template._stopped:
        time.sleep(0.001)
    template.stop()
    thread.join(30)
    render()  # until it is told otherwise
    assert failed == ["the chat template was stopped before it had made the prompt"] * 2
    template.resume()
    assert template.render(USER).text == "ok"


def test_a_stop_reaches_a_waiting_request(monkeypatch: pytest.MonkeyPatch, child: psutil.Process) -> None:
    template, running = ChatTemplate("x", "", ""), renderer._running

    def stopped_before() -> RenderingChild:
        template.stop()
        return running()

    monkeypatch.setattr(renderer, "_running", stopped_before)
    monkeypatch.setattr(RenderingChild, "ask", lambda self, request: pytest.fail("it is asked"))
    with pytest.raises(EdgeLLMError, match="template was stopped"):
        template.render(USER)
    assert child.is_running()


@posix
def test_a_program_that_ends_waits_for_no_template(child: psutil.Process) -> None:
    template, failed = ChatTemplate("x", "", ""), list[str]()

    def render() -> None:
        with pytest.raises(EdgeLLMError) as error:
            template.render(USER)
        failed.append(str(error.value))

    child.suspend()  # so that no limit of CPU time ends it
    thread = threading.Thread(target=render)
    thread.start()
    while renderer._current is not template._stopped:
        time.sleep(0.001)
    renderer.close()
    thread.join()
    assert "it was closed" in failed[0]


def test_a_stop_reaches_no_other_request() -> None:
    one, other = ChatTemplate("1", "", ""), ChatTemplate("2", "", "")
    one.stop()
    assert other.render(USER).text == "2"


def test_many_threads_share_it() -> None:
    templates, wrong = [ChatTemplate(f"{i}{{{{ messages[0].content }}}}", "", "") for i in range(4)], list[str]()

    def render(i: int) -> None:
        for n in range(20):
            text = templates[i].render([{"role": "user", "content": str(n)}]).text
            if text != f"{i}{n}":
                wrong.append(text)

    threads = [threading.Thread(target=render, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_has_one_of_its_own() -> None:
    code = """
import os, psutil
from edgellm.text.template import ChatTemplate
template = ChatTemplate("{{ messages[0].content }}", "", "")
mine = psutil.Process().children()[0].pid
if not (pid := os.fork()):
    assert template.render([{"role": "user", "content": "fork"}]).text == "fork"
    assert [child.pid for child in psutil.Process().children()] != [mine]
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
assert template.render([{"role": "user", "content": "parent"}]).text == "parent"
assert [child.pid for child in psutil.Process().children()] == [mine]
print("both")
"""
    assert run(code) == "both\n"


@pytest.mark.parametrize("first", ["", "."])
def test_the_folder_it_is_started_in_changes_nothing(tmp_path: Path, first: str) -> None:
    """Even if that folder is first on sys.path, full of modules, and read-only."""
    for name in ("jinja2", "markupsafe", "json", "signal", "sitecustomize"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('shadowed')")
    tmp_path.chmod(0o500)
    code = f"""
import json, signal, subprocess, sys
sys.path.insert(0, {first and str(tmp_path)!r})
from edgellm.text.template import ChatTemplate
print(ChatTemplate('{{{{ 1 }}}}', '', '').render([]).text)
"""
    assert run(code, tmp_path) == "1\n"
    tmp_path.chmod(0o700)


@linux
def test_it_has_no_secrets_and_no_files(child: psutil.Process) -> None:
    assert set(child.environ()) <= {"LD_LIBRARY_PATH", "TZ", "LC_CTYPE"}
    opened = {link.name: link.readlink().name for link in Path(f"/proc/{child.pid}/fd").iterdir()}
    assert {fd: name.split(":")[0] for fd, name in opened.items()} == {"0": "pipe", "1": "pipe", "2": "null"}


@posix
def test_ctrl_c_in_the_terminal_is_none_of_its_business(child: psutil.Process) -> None:
    assert os.getsid(child.pid) != os.getsid(0)
    child.send_signal(signal.SIGINT)
    assert ChatTemplate("a", "", "").render(USER).text == "a"
    assert child.is_running()


@pytest.mark.parametrize(
    "reply",
    [
        {},
        [],
        5,
        {"refused": 5},
        {"refused": ["failed"]},
        {"text": "ab", "origins": [[0, 1]]},
        {"text": "ab", "origins": [[0, float("inf")]]},
        {"text": "ab", "origins": [[0, 3], [0, -1]]},
        {"text": "ab", "origins": [["x", 2]]},
        {"text": "ab", "origins": 2},
        {"text": ["ab"], "origins": [[0, 1]]},
        {"text": "a\ud800", "origins": [[0, 2]]},
    ],
)
def test_replies_of_the_process_are_checked(monkeypatch: pytest.MonkeyPatch, reply: Any) -> None:
    template = ChatTemplate("a", "", "")
    monkeypatch.setattr(RenderingChild, "ask", lambda self, request: (ANSWER, json.dumps(reply).encode()))
    with pytest.raises(EdgeLLMError, match="template failed: the process that renders it answers with something else"):
        template.render(USER)


@pytest.mark.parametrize("header", [struct.pack("<iI", ANSWER, 1 << 30), b"abc", b""])
def test_a_reply_without_bound_is_not_read(monkeypatch: pytest.MonkeyPatch, header: bytes) -> None:
    template = ChatTemplate("a", "", "")
    code = f"import os; os.write(1, {struct.pack('<iI', READY, 0) + header!r}); os.read(0, 1)"
    monkeypatch.setattr("edgellm.text.rendering.child._MAIN", code)
    monkeypatch.setattr("edgellm.text.template.renderer", Renderer())
    with pytest.raises(EdgeLLMError, match="template failed: the process that renders it"):
        template.render(USER)


def test_one_that_cannot_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgellm.text.template.renderer", Renderer())
    monkeypatch.setattr(sys, "executable", "/no/python")
    with pytest.raises(EdgeLLMError, match=r"cannot be started \(No such file or directory\); close other programs"):
        ChatTemplate("a", "", "")
