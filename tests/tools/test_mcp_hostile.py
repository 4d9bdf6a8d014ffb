"""MCP servers that do harm or break: each ends in one line, or in a text for the model."""

import os
import threading
import time
from pathlib import Path

import pytest

from edgellm.errors import EdgeLLMError
from edgellm.mcp import Servers, open_servers
from support.mcp_scripts import by_hand, servers_file


def opened(tmp_path: Path, source: str, **options: float) -> Servers:
    return open_servers(servers_file(tmp_path, a=by_hand(tmp_path, "a", source)), **options)


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("print('boom', file=sys.stderr); sys.exit(3)", "ended with exit code 3 (boom)"),
        ("os.kill(os.getpid(), 11)", "was ended by signal SIGSEGV"),
        ("print('a banner', flush=True); sys.exit(0)", "ended with exit code 0 (a banner)"),
        ("os.close(1); time.sleep(600)", "closed the connection"),
        ("sys.stdout.write('x' * (17 << 20))", "sent a message of more than 16.8 MB"),
        ("def tools(params): return {'tools': [{'name': 'x'}]}", "does not follow MCP: tools.0.inputSchema: Field"),
        (
            "def tools(params): return {'tools': [{'name': 'x', 'inputSchema': {'type': 'array'}}]}",
            "does not follow MCP: tools.0.inputSchema.type: Input should be 'object'",
        ),
        ("def tools(params): return {'tools': 1}", "does not follow MCP: tools: "),
        ("def tools(params): return {'tools': [], 'nextCursor': 'again'}", "lists more than 1,000 tools, or more"),
        ("def initialize(params): return {}", "does not follow MCP: "),
        ("def tools(params): sys.exit('later')", "ended with exit code 1 (later)"),
        ("print('\\x1b[31m', 'y' * 9999, file=sys.stderr); sys.exit(3)", "ended with exit code 3 (…yyy"),
    ],
)
def test_a_server_that_does_not_start_is_one_line(tmp_path: Path, source: str, problem: str) -> None:
    with pytest.raises(EdgeLLMError) as refused:
        opened(tmp_path, source)
    message = str(refused.value)
    assert message.startswith(f"MCP server a {problem}") and message.endswith("; mend it, or disable it in the file")
    assert message.isprintable() and len(message) < 500


@pytest.mark.parametrize("fields", [{"command": "nowhere"}, {"command": "sh", "cwd": "nowhere"}])
def test_a_program_or_folder_that_there_is_none_of_is_one_line(tmp_path: Path, fields: dict[str, str]) -> None:
    with pytest.raises(EdgeLLMError, match="MCP server x cannot be started: No such file or directory: nowhere; mend"):
        open_servers(servers_file(tmp_path, x=fields))


@pytest.mark.parametrize("source", ["time.sleep(600)", "def tools(params): sys.stdin.read(); sys.exit(0)"])
def test_a_server_that_does_not_answer_is_ended(tmp_path: Path, source: str) -> None:
    source = f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\nprint('waits', file=sys.stderr)\n{source}"
    with pytest.raises(EdgeLLMError, match=r"MCP server a did not answer within 0.5 s \(waits\); mend it"):
        opened(tmp_path, source, start_s=0.5)
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text()}").exists()


def test_one_that_fails_ends_the_others(tmp_path: Path) -> None:
    good = by_hand(tmp_path, "good", f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))")
    bad = by_hand(tmp_path, "bad", "time.sleep(0.3); sys.exit(1)")
    with pytest.raises(EdgeLLMError, match="MCP server bad ended with exit code 1"):
        open_servers(servers_file(tmp_path, good=good, bad=bad))
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text()}").exists()


def test_a_server_that_dies_is_told_to_the_model(tmp_path: Path) -> None:
    with opened(tmp_path, "def call(params): sys.exit('died')") as servers:
        error = "error: the MCP server a ended with exit code 1 (died)"
        assert [servers.tools["a__echo"].run({}) for _ in range(2)] == [error, error]


def test_a_server_that_died_is_started_again_and_no_call_is_sent_twice(tmp_path: Path) -> None:
    source = f"""
        def call(params):
            with open({str(tmp_path / "calls")!r}, "a") as calls:
                calls.write(params["arguments"]["text"])
            if params["arguments"]["text"] == "x":
                sys.exit("died")
            return text(str(os.getpid()))
    """
    with opened(tmp_path, source) as servers:
        run = servers.tools["a__echo"].run
        first = run({"text": "a"})
        for _ in range(3):
            assert run({"text": "x"}) == "error: the MCP server a ended with exit code 1 (died)"
            assert run({"text": "b"}) not in (first, "") and run({"text": "c"}).isdigit()
        assert "(died)" in run({"text": "x"})
        refused = "error: MCP server a ended with exit code 1 (died), after it was started again 3 times; mend it"
        assert [run({"text": "d"}).startswith(refused) for _ in range(2)] == [True, True]
    assert (tmp_path / "calls").read_text() == "axbcxbcxbcx"


def test_a_server_that_does_not_start_again_is_told_to_the_model(tmp_path: Path) -> None:
    source = f"""
        if os.path.exists({str(tmp_path / "started")!r}):
            sys.exit("not again")
        open({str(tmp_path / "started")!r}, "w").close()

        def call(params): sys.exit("died")
    """
    with opened(tmp_path, source) as servers:
        assert "(died)" in servers.tools["a__echo"].run({})
        for _ in range(2):
            error = servers.tools["a__echo"].run({})
            assert error.startswith("error: MCP server a ended with exit code 1 (not again); mend it")


def test_no_answer_to_a_call_is_told_and_the_next_call_works(tmp_path: Path) -> None:
    source = """
        def call(params):
            if params["arguments"].get("wait"):
                time.sleep(0.5)
            return text("done")
    """
    with opened(tmp_path, source, call_s=0.2) as servers:
        assert servers.tools["a__echo"].run({"wait": 1}) == "error: the MCP server a did not answer within 0.2 s"
        time.sleep(0.5)
        assert servers.tools["a__echo"].run({}) == "done"


def test_a_server_that_reads_nothing_holds_nothing_up(tmp_path: Path) -> None:
    source = "def call(params): time.sleep(600)"
    with opened(tmp_path, source, call_s=0.3) as servers:
        for _ in range(2):
            result = servers.tools["a__echo"].run({"text": "x" * 1_000_000})
            assert result == "error: the MCP server a did not answer within 0.3 s"


def test_an_event_ends_a_call(tmp_path: Path) -> None:
    cancelled = threading.Event()
    file = servers_file(tmp_path, a=by_hand(tmp_path, "a", "def call(params): time.sleep(600)"))
    with open_servers(file, cancelled) as servers:
        threading.Timer(0.2, cancelled.set).start()
        assert servers.tools["a__echo"].run({}) == "error: the user stopped the call"
        assert servers.tools["a__echo"].run({}) == "error: the user stopped the call"
    with pytest.raises(EdgeLLMError, match="the start of the MCP servers was stopped"):
        open_servers(file, cancelled)


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ("text('x' * 100_000)", "x" * 20_000 + "\n[cut here: these are the first 20,000 characters of 100 kB]"),
        ("text('\\x1b]0;x\\x07\\u202e')", "␛]0;x␇"),
        ("text('')", ""),
        ("{'content': []}", ""),
        ("{'content': [], 'structuredContent': {'a': 'é'}}", '{"a": "é"}'),
        ("text('a') | {'isError': True}", "error: a"),
        ("{'content': [], 'isError': True}", "error: the tool failed"),
        ("{'content': [{'type': 'audio', 'data': 'AAAA', 'mimeType': 'x'}]}", "[audio, 3 bytes, not shown]"),
        (
            "{'content': [{'type': 'resource_link', 'uri': 'file:///x', 'name': 'x'},"
            " {'type': 'resource', 'resource': {'uri': 'file:///x', 'text': 'inside'}},"
            " {'type': 'resource', 'resource': {'uri': 'file:///x', 'blob': 'AAAA'}}]}",
            "[link to file:///x]\ninside\n[resource, 3 bytes, not shown]",
        ),
        ("{'content': 1}", "error: the MCP server a answered with what is no result of a tool"),
        ("{'content': [{'type': 'video'}]}", "error: the MCP server a answered with what is no result of a tool"),
        ("{}", "error: the MCP server a answered with what is no result of a tool"),
        ("text('x' * (17 << 20))", "error: the MCP server a sent a message of more than 16.8 MB"),
    ],
)
def test_results_become_text(tmp_path: Path, result: str, text: str) -> None:
    with opened(tmp_path, f"def call(params): return {result}") as servers:
        assert servers.tools["a__echo"].run({}) == text


def test_an_error_of_the_protocol_is_told(tmp_path: Path) -> None:
    source = "def call(params): send(id=message['id'], error={'code': -1, 'message': 'no\\x1b[0m\\n!'}); return {}"
    with opened(tmp_path, source) as servers:
        assert servers.tools["a__echo"].run({}) == "error: no\\x1b[0m\\n!"


def test_names_become_valid_and_unique(tmp_path: Path) -> None:
    source = """
        def tools(params):
            names = ["a b", "a\\tb", "a_b", "é\\x1b[0m", "", "x" * 300, "x" * 301, "a.b-c"]
            return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in names]}
        def call(params): return text(params["name"])
    """
    file = servers_file(tmp_path, **{"my server": by_hand(tmp_path, "a", source)})
    with open_servers(file) as servers:
        assert list(servers.tools) == [
            *("my_server__a_b", "my_server__a_b_2", "my_server__a_b_3", "my_server_____0m", "my_server__"),
            *("my_server__" + "x" * 53, "my_server__" + "x" * 48 + "_2", "my_server__a.b-c"),
        ]
        assert [tool.name for tool in servers.tools.values()] == list(servers.tools)
        assert servers.tools["my_server__a_b_2"].run({}) == "a\tb"
        assert servers.tools["my_server__" + "x" * 53].run({}) == "x" * 300


def test_tools_that_no_guide_follows_are_left_out(tmp_path: Path) -> None:
    source = r"""
        def tools(params):
            schemas = {
                "good": {"type": "object", "properties": {"a": {"type": "string", "format": "uri"}}},
                "properties": {"type": "object", "properties": {"a": 1}},
                "pattern": {"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}},
                "reference": {"type": "object", "properties": {"a": {"$ref": "http://example.com/schema"}}},
                "huge": {"type": "object", "description": "x" * 100_000},
            }
            listed = [{"name": name, "inputSchema": schema} for name, schema in schemas.items()]
            return {"tools": [*listed, listed[0]]}
    """
    with opened(tmp_path, source) as servers:
        assert list(servers.tools) == ["a__good"]
        for name, line in zip(("properties", "pattern", "reference", "huge", "good"), servers.problems, strict=True):
            assert line.startswith(f"MCP server a: tool {name} is left out") and line.isprintable()


def test_what_a_server_started_ends_with_it(tmp_path: Path) -> None:
    source = f"""
        import subprocess
        child = subprocess.Popen(["sleep", "600"])
        open({str(tmp_path / "pid")!r}, "w").write(str(child.pid))
    """
    with opened(tmp_path, source):
        pid = int((tmp_path / "pid").read_text())
        os.kill(pid, 0)
    for _ in range(500):
        if not Path(f"/proc/{pid}").exists() or ") Z " in Path(f"/proc/{pid}/stat").read_text():
            break
        time.sleep(0.01)
    else:
        raise AssertionError("it still runs")
