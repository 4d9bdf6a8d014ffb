"""Commands that run: stdin, output, failures, limits, and the end of all processes of a command."""

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from edgellm.tools.calls import ToolCall
from edgellm.tools.commands import read_commands
from edgellm.tools.running import run_call
from edgellm.tools.tool import Tool

posix = pytest.mark.skipif(os.name != "posix", reason="process groups")


def program(tmp_path: Path, source: str, cancelled: threading.Event | None = None, **fields: Any) -> Tool:
    """A tool that runs a Python program with its argument `a`."""
    (tmp_path / "program.py").write_text(source, encoding="utf-8")
    optional = {"type": "object", "properties": {"a": {"type": "string"}}}
    items = [sys.executable, "-S", str(tmp_path / "program.py"), "{a}"]
    entry = {"name": "run", "command": items, "parameters": optional, **fields}
    (tmp_path / "commands.json").write_text(json.dumps([entry]), encoding="utf-8")
    return read_commands(tmp_path / "commands.json", cancelled)["run"]


def shell(tmp_path: Path, script: str, **fields: Any) -> Tool:
    return program(tmp_path, "", command=["sh", "-c", script], **fields)


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def ends(pid: int) -> bool:
    """Whether a process ends; a kill takes a moment."""
    return any(not alive(pid) or time.sleep(0.01) for _ in range(500))


def test_a_command_gets_its_argument_and_stdin(tmp_path: Path) -> None:
    tool = program(tmp_path, "import json, sys; print(sys.argv[1:], json.load(sys.stdin))")
    assert tool.run({"a": "é\n$x", "self": [1]}) == "['é\\n$x'] {'a': 'é\\n$x', 'self': [1]}\n"
    assert tool.run({}) == "[] {}\n"


def test_a_command_that_reads_no_stdin_does_not_wait(tmp_path: Path) -> None:
    assert shell(tmp_path, "echo done").run({"a": "x" * 1_000_000}) == "done\n"


def test_it_runs_in_its_folder_with_the_environment_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGELLM_TEST", "of the user")
    (tmp_path / "there").mkdir()
    source = "import os; print(os.getcwd(), os.environ['EDGELLM_TEST'])"
    assert program(tmp_path, source, folder="there").run({}).split(" ", 1) == [
        str((tmp_path / "there").resolve()),
        "of the user\n",
    ]
    assert program(tmp_path, source).run({}).startswith(str(Path.cwd()))


def test_a_failure_tells_stdout_the_exit_code_and_stderr(tmp_path: Path) -> None:
    tool = shell(tmp_path, "echo out; echo err >&2; exit 3")
    assert tool.run({}) == "out\n[the command ended with exit code 3]\nerr"
    assert shell(tmp_path, "echo out; echo err >&2").run({}) == "out\n"


@posix
def test_a_signal_is_told(tmp_path: Path) -> None:
    assert shell(tmp_path, "kill -SEGV $$").run({}) == "[the command was ended by signal SIGSEGV]"


def test_the_end_of_a_long_stderr_is_told(tmp_path: Path) -> None:
    tool = program(tmp_path, "import sys; sys.stderr.write('x' * 100_000 + 'last'); sys.exit(1)")
    assert tool.run({}) == "[the command ended with exit code 1]\n" + "x" * 3_996 + "last"


def test_a_program_that_there_is_none_of_is_told(tmp_path: Path) -> None:
    result = program(tmp_path, "", command=["./no-such-program"]).run({})
    assert result == "error: ./no-such-program cannot be run: No such file or directory"


def test_an_argument_that_is_too_long_is_told(tmp_path: Path) -> None:
    assert "cannot be run: " in program(tmp_path, "").run({"a": "x" * 3_000_000})


@pytest.mark.parametrize("char", ["x", "é", "𝄞"])
def test_long_output_is_cut_at_a_character(tmp_path: Path, char: str) -> None:
    tool = program(tmp_path, f"import sys; sys.stdout.buffer.write(('a' + {char!r} * 500_000).encode())")
    size = {"x": "500 kB", "é": "1 MB", "𝄞": "2 MB"}[char]
    cut = f"\n[cut here: these are the first 20,000 characters of {size}]"
    assert tool.run({}) == "a" + char * 19_999 + cut


def test_output_of_the_limit_is_whole(tmp_path: Path) -> None:
    assert program(tmp_path, "print('𝄞' * 20_000, end='')").run({}) == "𝄞" * 20_000


@posix
def test_output_without_end_takes_no_memory(tmp_path: Path) -> None:
    import resource

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = shell(tmp_path, "head -c 300000000 /dev/zero; head -c 300000000 /dev/zero >&2; exit 1").run({})
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 30_000  # kB
    assert result.startswith("␀" * 20_000 + "\n[cut here: these are the first 20,000 characters of 300 MB]\n")
    assert len(result) < 25_000


def test_output_is_safe_for_a_terminal(tmp_path: Path) -> None:
    source = r"import sys; sys.stdout.buffer.write(b'\x1b[31mred\x07\r\nnext\xff \xe2\x80\xaex\t\x9b')"
    assert program(tmp_path, source).run({}) == "␛[31mred␇\nnext\ufffd x\t\ufffd"


@posix
def test_a_timeout_ends_all_processes_of_the_group(tmp_path: Path) -> None:
    script = "trap '' TERM; sh -c 'trap \"\" TERM; echo $$; exec sleep 600' & echo $$; sleep 600"
    first, second, *rest = shell(tmp_path, script, timeout_s=0.3).run({}).split("\n")
    assert rest == ["[the command took longer than 0.3 s and was ended]"]
    assert ends(int(first)) and ends(int(second))


@posix
def test_a_command_is_over_with_its_first_process(tmp_path: Path) -> None:
    pid = shell(tmp_path, "sleep 600 & echo $!").run({})
    assert ends(int(pid))


@posix
def test_a_process_that_left_the_group_holds_nothing_up(tmp_path: Path) -> None:
    source = (
        "import os, sys, time\n"
        "if os.fork() == 0:\n    os.setsid()\n    print(os.getpid(), flush=True)\n    time.sleep(600)\n"
        "time.sleep(0.1)"
    )
    pid = int(program(tmp_path, source).run({}))
    assert alive(pid)
    os.kill(pid, 9)


@posix
def test_a_command_has_no_terminal(tmp_path: Path) -> None:
    assert "cannot" in shell(tmp_path, "(exec 3</dev/tty) 2>/dev/null || echo cannot").run({})


def test_an_event_ends_a_run_and_later_ones(tmp_path: Path) -> None:
    cancelled = threading.Event()
    tool = program(tmp_path, "import time; print('begun', flush=True); time.sleep(600)", cancelled)
    threading.Timer(0.5, cancelled.set).start()
    assert tool.run({}) == "begun\n[the user stopped the command]"
    assert tool.run({}) == "[the user stopped the command]"
    cancelled.clear()
    assert program(tmp_path, "print(1)", cancelled).run({}) == "1\n"


@posix
def test_an_exception_in_the_waiting_thread_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupting(threading.Event):
        def is_set(self) -> bool:
            if (tmp_path / "pid").exists() and (tmp_path / "pid").read_text():
                raise KeyboardInterrupt
            return False

    tool = program(tmp_path, "", Interrupting(), command=["sh", "-c", f"echo $$ > {tmp_path}/pid; sleep 600"])
    with pytest.raises(KeyboardInterrupt):
        tool.run({})
    assert ends(int((tmp_path / "pid").read_text()))


def test_the_model_is_told_of_arguments_that_are_refused(tmp_path: Path) -> None:
    result = run_call(program(tmp_path, ""), ToolCall("call00000", "run", {"a": "-c"}))
    assert result.startswith('error: OptionError: tool run: argument a begins with "-"')
