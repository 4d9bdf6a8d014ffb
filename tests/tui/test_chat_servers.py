"""MCP servers of the chat: those that run stay until those of another file run."""

from collections.abc import Callable
from pathlib import Path
from threading import Event
from types import SimpleNamespace

import psutil
import pytest

from edgellm.errors import EdgeLLMError
from edgellm.tools.tool import Tool
from support.chat_tools import PRINT, wait_for, write_commands
from support.headless_chat import HeadlessFrontend
from support.mcp_scripts import by_hand, servers_file
from support.plain_talk import talk_in_lines
from tui.core.events import Notice, ServersOpened


class Started:
    """Takes the place of `open_servers`: `next_one` says what the next file starts."""

    def __init__(self) -> None:
        self.closed: set[str] = set()
        self.next_one: Callable[[], SimpleNamespace] = lambda: self.servers("first")

    def __call__(self, path: Path, cancelled: Event, stop_start: Event) -> SimpleNamespace:
        return self.next_one()

    def servers(self, name: str, tool: str = "") -> SimpleNamespace:
        tools = {tool or f"{name}__a": Tool({"function": {"name": tool or f"{name}__a"}})}
        return SimpleNamespace(tools=tools, names=[name], problems=[], close=lambda: self.closed.add(name))

    @staticmethod
    def fails() -> SimpleNamespace:
        raise EdgeLLMError("the MCP server second does not start")


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    started = Started()
    monkeypatch.setattr("edgellm.mcp.open_servers", started)
    return started


@pytest.fixture
def frontend(tmp_path: Path, started: Started) -> HeadlessFrontend:
    """A chat with the server `first`, whose tool runs without a question."""
    frontend = HeadlessFrontend(tmp_path / "chats.db")
    open_next(frontend, tmp_path)
    frontend.controller.tools.allowed.add("first__a")
    return frontend


def open_next(frontend: HeadlessFrontend, folder: Path) -> str:
    """Name a file of servers, and wait until these run or do not. Returns the last notice."""
    frontend.controller.tools.open_servers(servers_file(folder))
    assert frontend.controller.tools.servers.is_opening
    frontend.until(ServersOpened)
    frontend.until(Notice)
    assert not frontend.controller.tools.servers.is_opening
    return frontend.notices[-1]


def assert_first_stays(frontend: HeadlessFrontend, started: Started) -> None:
    assert list(frontend.controller.tools.tools) == ["first__a"] and frontend.controller.tools.allowed == {"first__a"}
    assert "first" not in started.closed


def test_servers_of_another_file_take_the_place_of_those_before(
    frontend: HeadlessFrontend, started: Started, tmp_path: Path
) -> None:
    started.next_one = lambda: started.servers("second")
    assert open_next(frontend, tmp_path).startswith("MCP servers second: 1 tool")
    assert list(frontend.controller.tools.tools) == ["second__a"] and not frontend.controller.tools.allowed
    frontend.controller.close()  # waits for the threads that end servers
    assert started.closed == {"first", "second"}


def test_servers_stay_where_others_do_not_start(frontend: HeadlessFrontend, started: Started, tmp_path: Path) -> None:
    started.next_one = started.fails
    said = open_next(frontend, tmp_path)
    assert said == "the MCP server second does not start; the MCP servers before stay open"
    assert_first_stays(frontend, started)


def test_servers_stay_where_a_tool_of_others_has_the_name_of_a_command(
    frontend: HeadlessFrontend, started: Started, tmp_path: Path
) -> None:
    frontend.controller.tools.use_commands(write_commands(tmp_path / "tools.json", weather=PRINT))
    frontend.controller.tools.allowed.add("weather")
    started.next_one = lambda: started.servers("second", "weather")
    assert "have the name weather" in open_next(frontend, tmp_path)
    assert list(frontend.controller.tools.servers.tools) == ["first__a"]
    assert frontend.controller.tools.allowed == {"first__a", "weather"}
    frontend.controller.close()
    assert started.closed == {"first", "second"}


@pytest.mark.parametrize("text", [None, "{", '{"mcpServers": {"a": {}}}'])
def test_a_file_with_a_fault_starts_and_ends_nothing(
    frontend: HeadlessFrontend, started: Started, tmp_path: Path, text: str | None
) -> None:
    file = tmp_path / "bad.json"
    if text is not None:
        file.write_text(text, encoding="utf-8")
    with pytest.raises(EdgeLLMError, match=r"bad\.json"):
        frontend.controller.tools.open_servers(file)
    assert not frontend.controller.tools.servers.is_opening
    assert_first_stays(frontend, started)


def test_a_start_that_is_stopped_ends_no_server_that_runs(
    frontend: HeadlessFrontend, started: Started, tmp_path: Path
) -> None:
    go_on = Event()

    def slowly() -> SimpleNamespace:
        go_on.wait(20)
        return started.servers("second")

    started.next_one = slowly
    frontend.controller.tools.open_servers(servers_file(tmp_path))
    frontend.controller.stop()
    go_on.set()
    frontend.until(ServersOpened)
    assert_first_stays(frontend, started)
    frontend.controller.close()
    assert started.closed == {"first", "second"}


def test_real_servers_stay_after_a_file_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("mcp")
    file = servers_file(tmp_path, hand=by_hand(tmp_path, "hand"))
    said = talk_in_lines(tmp_path, monkeypatch, capsys)(f"/mcp {file}\n/mcp nofile\n/mcp {tmp_path}\n/mcp\n")
    lines = said.err.splitlines()
    assert lines.count("the MCP servers are being started") == 1
    assert lines.count("MCP servers hand: 1 tool") == 2
    assert "edgellm: nofile: there is no such file; check the path" in lines
    assert f"edgellm: {tmp_path}: Is a directory; give a text file" in lines


@pytest.mark.parametrize("off", ["drop_servers", "stop"])
def test_a_start_that_is_not_wanted_any_more_ends_at_once(tmp_path: Path, off: str) -> None:
    pytest.importorskip("mcp")
    frontend = HeadlessFrontend(tmp_path / "chats.db")
    source = f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    frontend.controller.tools.open_servers(servers_file(tmp_path, slow=by_hand(tmp_path, "slow", source)))
    wait_for(tmp_path / "pid")
    getattr(frontend.controller if off == "stop" else frontend.controller.tools, off)()
    frontend.until(ServersOpened)
    assert not frontend.controller.works_in_background and not frontend.controller.tools.servers.names
    assert not psutil.pid_exists(int((tmp_path / "pid").read_text() or -1))
    frontend.controller.close()


def test_the_end_of_a_call_does_not_touch_the_start_of_servers(tmp_path: Path) -> None:
    pytest.importorskip("mcp")
    frontend = HeadlessFrontend(tmp_path / "chats.db")
    frontend.controller.tools.cancelled.set()  # as from the stop of a call to its end
    frontend.controller.tools.open_servers(servers_file(tmp_path, a=by_hand(tmp_path, "a")))
    frontend.until(ServersOpened)
    assert frontend.controller.tools.servers.names == ["a"]
    frontend.controller.close()
