"""Calls of tools in `edgellm chat --plain`: the question is a line, and so is the answer."""

import os
import sys
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from edgellm.tools.calls import REFUSED
from support.chat_fakes import FakeModel
from support.chat_tools import PRINT, call, write_commands
from support.mcp_scripts import by_hand, servers_file
from support.plain_talk import Talk, talk_in_lines
from tui.core.tool_question import Answer
from tui.early_input import waiting_keys
from tui.plain.input import PlainInput
from tui.plain.questions import CallQuestions

ROME, OSLO = call("weather", city="Rome"), call("weather", 1, city="Oslo")
RESULT = "Rome is sunny\nwind: 3\n"


@pytest.fixture
def talk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Talk:
    return talk_in_lines(tmp_path, monkeypatch, capsys)


@pytest.fixture
def tools(tmp_path: Path) -> str:
    """The line that offers a command."""
    return f"/tools {write_commands(tmp_path / 'my tools.json', weather=PRINT)}\n".replace("my tools", "my\\ tools")


def results(model: FakeModel) -> list[Any]:
    return [message["content"] for message in model.asked[-1] if message["role"] == "tool"]


def test_a_call_asks_and_its_result_is_one_line(talk: Talk, tools: str) -> None:
    model = FakeModel(replies=[["Let me see.", ROME], ["Sunny."]])
    said = talk(f"{tools}How is it?\ny\n", model)
    assert said.out == "Let me see.\nSunny.\n"
    assert "1 command\nweather(city) · The weather" in said.err
    assert (
        'calls weather(city="Rome"), which runs\n' in said.err and "'is sunny'); print('wind: 3')\" Rome\n" in said.err
    )
    assert 'called weather(city="Rome") · 2 lines\n' in said.err
    assert "wind: 3\n\n" not in said.err and results(model) == [RESULT]
    assert said.code == 0


def test_a_line_that_is_no_answer_refuses_and_is_the_next_message(talk: Talk, tools: str) -> None:
    model = FakeModel(replies=[[ROME, OSLO], ["Then not."], ["Hello."]])
    said = talk(f"{tools}How is it?\nand something else\n", model)
    assert model.asked[-1][-1]["content"] == "and something else"
    assert results(model) == [REFUSED, REFUSED]
    assert said.out == "Then not.\nHello.\n" and said.err.count("· refused") == 2


@pytest.mark.parametrize(
    ("answers", "expected"), [("a\n", [RESULT, "Oslo is sunny\nwind: 3\n"]), ("n\nn\n", [REFUSED] * 2)]
)
def test_always_and_never(talk: Talk, tools: str, answers: str, expected: list[str]) -> None:
    model = FakeModel(replies=[[ROME, OSLO], ["Done."]])
    talk(f"{tools}How is it?\n{answers}", model)
    assert results(model) == expected


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pseudo-terminals of this kind")
def test_a_line_typed_before_the_question_is_no_answer_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    keyboard, terminal = os.openpty()
    given: list[Answer] = []
    calls: Any = SimpleNamespace(answer=lambda question, answer: given.append(answer))
    asked: Any = SimpleNamespace(call=ROME, text="weather Rome")

    def answer(question: str) -> None:
        os.write(keyboard, b"y\n")

    with os.fdopen(terminal, encoding="utf-8") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        source = PlainInput([])
        os.write(keyboard, b"y\na\n")
        CallQuestions(calls, source, print).ask(asked)
        assert given == [Answer.REFUSE]
        assert [source.read(), source.read()] == ["y", "a"]
        CallQuestions(calls, source, answer).ask(asked)
        assert given == [Answer.REFUSE, Answer.ONCE]
    os.close(keyboard)


class Terminal(StringIO):
    """A terminal as stdin, at which something was typed."""

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return 0

    def reconfigure(self, **options: str) -> None: ...


class FakeConsole:
    """The keys of a console of Windows that nobody has read."""

    def __init__(self, keys: str) -> None:
        self.keys = list(keys)

    def kbhit(self) -> bool:
        return bool(self.keys)

    def getwch(self) -> str:
        return self.keys.pop(0)


@pytest.mark.parametrize(
    ("keys", "typed"), [("", ""), ("y\r", "y\n"), ("a\0Hb\xe0Kc\rd", "abc\nd"), ("\xe0", "à"), ("\0", "\0")]
)
def test_keys_pressed_early_at_a_console_of_windows_are_lines(keys: str, typed: str) -> None:
    console = FakeConsole(keys)
    assert waiting_keys(console) == typed
    assert not console.kbhit()


def test_lines_typed_early_at_a_console_of_windows_stay_and_are_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setitem(sys.modules, "msvcrt", FakeConsole("y\rand"))
    monkeypatch.setattr(sys, "stdin", Terminal(" more\n"))
    source = PlainInput([])
    assert source.is_early()
    assert [source.read(), source.read(), source.read()] == ["y", "and more", None]
    assert not source.is_early()


def test_the_end_of_the_input_runs_nothing(talk: Talk, tools: str) -> None:
    model = FakeModel(replies=[[ROME], ["Never."]])
    said = talk(f"{tools}How is it?\n", model)
    assert said.out == "" and said.err.endswith("the input ended at the question: the call did not run\n")
    assert len(model.asked) == 1
    said = talk("And?\n", model, chat=1)
    assert 'calls weather(city="Rome")' in said.err and said.out == "Never.\n"


def test_results_are_short_where_a_chat_is_opened_and_whole_where_words_are_found(talk: Talk, tools: str) -> None:
    talk(f"{tools}How is it?\ny\n", FakeModel(replies=[[ROME], ["Sunny."]]))
    said = talk("/find wind\n", chat=1)
    assert 'called weather(city="Rome") · 2 lines\nfake: Sunny.\n' in said.err
    assert "weather: Rome is sunny\nwind: 3\n" in said.err


def test_servers_are_started_and_asked(talk: Talk, tmp_path: Path) -> None:
    pytest.importorskip("mcp")
    file = servers_file(tmp_path, hand=by_hand(tmp_path, "hand", ""))
    model = FakeModel(replies=[[call("hand__echo", text="a\u202eb")], ["Done."]])
    said = talk(f"/mcp {file}\n/mcp\nhello\ny\n/mcp off\n", model)
    assert said.err.count("MCP servers hand: 1 tool\nhand__echo() · Echo.\n") == 2
    assert 'which runs\nhand__echo {\n  "text": "a\\u202eb"\n}\n' in said.err
    assert results(model) == ['{"text": "a\\u202eb"}']
    assert "no MCP servers" in said.err and said.code == 0


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("/tools none.json", "none.json"),
        ("/mcp none.json", "none.json"),
        ("/schema none.json", "none.json"),
        ("/schema {", "edgellm: /schema: the schema is no JSON: Expecting"),
        ("/schema bad.json", "edgellm: bad.json: the schema is no JSON: Expecting"),
        ("/schema list.json", "edgellm: list.json: the JSON is no schema; give an object"),
        ('/schema {"not": {}}', "edgellm: /schema: #/not "),
        ("/schema not.json", "edgellm: not.json: #/not "),
        ("/schema /", "edgellm: /: Is a directory; give a text file"),
        ("/tools /", "edgellm: /: Is a directory; give a text file"),
        ("/mcp /", "edgellm: /: Is a directory; give a text file"),
        ('/schema {"type": "integer"}\n/tools {tools}', "/schema off first"),
        ('/tools {tools}\n/schema {"type": "integer"}', "/tools off first"),
    ],
)
def test_errors_are_one_line_before_anything_is_sent(
    talk: Talk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, expected: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write_commands(tmp_path / "tools.json", weather=PRINT)
    for name, text in (("bad", '{"type": "object",}'), ("list", "[]"), ("not", '{"not": {}}')):
        (tmp_path / f"{name}.json").write_text(text, encoding="utf-8")
    said = talk(line.replace("{tools}", "tools.json"))
    errors = [each for each in said.err.splitlines() if each.startswith("edgellm: ")]
    assert len(errors) == 1 and expected in errors[0] and "option" not in errors[0]
    assert said.code == 1


def test_a_model_without_calls_gives_one_line(talk: Talk, tools: str) -> None:
    said = talk(f"{tools}/mcp servers.json\n", FakeModel(calls=False))
    assert said.err.count("the chat template of fake shows no calls of tools: choose a model whose template does") == 2
