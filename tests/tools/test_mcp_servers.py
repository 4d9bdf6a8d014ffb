"""MCP servers that behave: a real one, written with the package mcp, and one written by hand."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edgellm.errors import EdgeLLMError
from edgellm.mcp import Servers, open_servers
from edgellm.tools.calls import ToolCall
from edgellm.tools.running import run_call, run_calls
from support import with_support
from support.mcp_scripts import OF_THE_PACKAGE, by_hand, entry, servers_file


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    folder = tmp_path_factory.mktemp("mcp")
    (folder / "work").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EDGELLM_SECRET", "secret")
        real = entry(folder, "real", OF_THE_PACKAGE, env={"GIVEN": "given"}, cwd=str(folder / "work"))
        hand = by_hand(folder, "hand", "def call(params): return text('by hand')")
        with open_servers(servers_file(folder, real=real, hand=hand)) as servers:
            yield servers


def test_tools_have_names_and_schemas_of_their_servers(servers: Servers) -> None:
    assert servers.names == ["real", "hand"] and servers.problems == []
    assert list(servers.tools) == ["real__add", "real__look", "real__fail", "real__secrets", "hand__echo"]
    add = servers.tools["real__add"]
    assert (add.name, add.description) == ("real__add", "Add numbers.")
    assert add.parameters["properties"]["a"]["type"] == "integer" and add.parameters["required"] == ["a"]


def test_calls_give_text(servers: Servers) -> None:
    assert servers.tools["real__add"].run({"a": 20, "b": 22}) == "42"
    assert servers.tools["real__look"].run({"what": "cat"}) == "a cat\n[image, 12 kB, not shown]"
    assert servers.tools["hand__echo"].run({}) == "by hand"


def test_an_error_of_a_tool_is_text(servers: Servers) -> None:
    assert servers.tools["real__fail"].run({}) == "error: Error executing tool fail"
    assert servers.tools["real__add"].run({"a": "x"}).startswith("error: ")


def test_a_server_gets_its_variables_and_folder_but_no_others(servers: Servers) -> None:
    given, secret, folder = servers.tools["real__secrets"].run({}).split()
    assert (given, secret, Path(folder).name) == ("given", "None", "work")


def test_calls_of_a_reply_run_and_may_be_refused(servers: Servers) -> None:
    calls = [ToolCall("call00000", "real__add", {"a": 1}), ToolCall("call00001", "hand__echo", {"self": "é\ud800"})]
    results = list[dict[str, Any]]()
    run_calls(servers.tools, calls, lambda call: call.name == "real__add", results.append)
    assert [each["content"] for each in results] == ["2", "error: the user refused this call"]
    assert run_call(servers.tools["hand__echo"], calls[1]) == "by hand"


def test_several_threads_may_call(servers: Servers) -> None:
    results = dict[int, str]()

    def add(number: int) -> None:
        results[number] = servers.tools["real__add"].run({"a": number, "b": number})

    threads = [threading.Thread(target=add, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {number: str(2 * number) for number in range(8)}


def test_pages_of_tools_are_read(tmp_path: Path) -> None:
    source = """
        def tools(params):
            page = int(params.get("cursor", 0))
            listed = {"tools": [{"name": f"t{page}", "inputSchema": {"type": "object"}}]}
            return listed | ({"nextCursor": str(page + 1)} if page < 3 else {})
    """
    with open_servers(servers_file(tmp_path, a=by_hand(tmp_path, "a", source))) as servers:
        assert list(servers.tools) == ["a__t0", "a__t1", "a__t2", "a__t3"]


def test_messages_that_nobody_asked_for_do_no_harm(tmp_path: Path) -> None:
    source = """
        def call(params):
            send(method="notifications/tools/list_changed")
            send(method="notifications/message", params={"level": "info", "data": "hello"})
            send(method="notifications/nonsense")
            send(id=99, method="sampling/createMessage", params={})
            send(id=98, method="roots/list")
            send(id=12345, result={})
            print("no JSON", flush=True)
            print("error text", file=sys.stderr, flush=True)
            return text("fine")
    """
    with open_servers(servers_file(tmp_path, a=by_hand(tmp_path, "a", source))) as servers:
        assert [servers.tools["a__echo"].run({}) for _ in range(3)] == ["fine"] * 3


def test_a_closed_server_has_no_process_and_says_so(tmp_path: Path) -> None:
    source = f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))"
    servers = open_servers(servers_file(tmp_path, a=by_hand(tmp_path, "a", source)))
    pid = int((tmp_path / "pid").read_text())
    assert Path(f"/proc/{pid}").exists()
    servers.close()
    servers.close()
    assert not Path(f"/proc/{pid}").exists()
    assert servers.tools["a__echo"].run({}) == "error: the MCP server a is closed"


def test_no_servers_are_no_tools(tmp_path: Path) -> None:
    with open_servers(servers_file(tmp_path, a={"command": "x", "disabled": True})) as servers:
        assert servers.tools == {} and servers.names == []


def test_without_the_package_there_is_advice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [each for each in sys.modules if each.startswith(("edgellm.mcp.", "mcp"))]:
        if name.partition(".")[0] == "mcp" or name == "edgellm.mcp.connection":
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mcp", None)
    with pytest.raises(EdgeLLMError, match=r"need the package mcp, version 2.3 or later: run `.*pip install .*mcp"):
        open_servers(servers_file(tmp_path, a={"command": "x"}))


@pytest.mark.slow
def test_a_program_that_closes_nothing_ends_quietly_with_its_servers(tmp_path: Path) -> None:
    file = servers_file(tmp_path, a=by_hand(tmp_path, "a", "print(os.getpid(), file=sys.stderr)"))
    program = f"""
from pathlib import Path
from edgellm.mcp import open_servers
servers = open_servers(Path({str(file)!r}))
print(servers.tools["a__echo"].run({{"x": 1}}))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, env=with_support(), timeout=60)
    assert (done.returncode, done.stderr, json.loads(done.stdout)) == (0, b"", {"x": 1})
