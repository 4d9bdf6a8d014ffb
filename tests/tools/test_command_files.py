"""The file of commands: what its entries become, and what is refused, in one line that names the place."""

import json
from pathlib import Path
from typing import Any

import pytest

from edgellm.errors import EdgeLLMError, OptionError
from edgellm.tools.commands import argv_of, read_commands
from edgellm.tools.tool import Tool, tool_of
from support import ROOT

WEATHER = {"name": "weather", "description": "The weather.", "command": ["curl", "-s", "https://wttr.in/{city}"]}


def read(tmp_path: Path, content: Any) -> dict[str, Tool]:
    path = tmp_path / "commands.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return read_commands(path)


def command(tmp_path: Path, *items: str, **fields: Any) -> Tool:
    return read(tmp_path, [{"name": "run", "command": list(items), **fields}])["run"]


def test_an_entry_becomes_a_tool_with_a_definition_for_templates(tmp_path: Path) -> None:
    parameters = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    function = {"name": "weather", "description": "The weather.", "parameters": parameters}
    for content in ([WEATHER], {"tools": [WEATHER]}):
        tools = read(tmp_path, content)
        assert list(tools) == ["weather"] and tools["weather"].function
        assert tools["weather"].definition == {"type": "function", "function": function}
        assert list(tools["weather"].definition["function"]) == ["name", "description", "parameters"]


def test_the_file_in_the_documentation_works(tmp_path: Path) -> None:
    blocks = (ROOT / "docs" / "tools.md").read_text(encoding="utf-8").split("```json\n")[1:]
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "rome.txt").write_text("-sunny\n", encoding="utf-8")
    tools = read(tmp_path, blocks[0].partition("```")[0])
    assert tools["search"].run({"pattern": "-s[ui]"}).endswith("rome.txt:1:-sunny\n")
    assert tools["search"].run({"pattern": "-s", "file": "rome.txt"}) == "1:-sunny\n"
    assert "exit code 1" in tools["search"].run({"pattern": "x"})
    assert len(tools["today"].run({})) == len("2000-01-01\n")


def test_the_argv_has_arguments_in_place(tmp_path: Path) -> None:
    names = ("text", "n", "flag", "list")
    properties = {name: {} for name in names}
    items = ["x", "{text}", "--n={n}", "{flag}", "{list}", "{{text}}", "{ text }", "{}", "a{text}b{n}"]
    tool = command(tmp_path, *items, parameters={"type": "object", "properties": properties})
    arguments = {"text": "; rm -rf / $(x) {n} 'é", "n": -1.5, "flag": True, "list": ["ü", None]}
    assert argv_of(tool, arguments) == [
        *("x", "; rm -rf / $(x) {n} 'é", "--n=-1.5", "true", '["ü", null]'),
        *("{text}", "{ text }", "{}", "a; rm -rf / $(x) {n} 'éb-1.5"),
    ]
    assert argv_of(tool, {"n": None}) == ["x", "--n=", "{text}", "{ text }", "{}", "ab"]
    assert argv_of(tool_of(WEATHER | {"name": "x"}), {}) is None


@pytest.mark.parametrize(
    ("items", "value", "argv"),
    [
        (["x", "{a}"], "-rf", None),
        (["x", "{a}{a}"], "-", None),
        (["x", "{a}"], "-1", None),
        (["x", "{a}"], -1, ["x", "-1"]),
        (["x", "{a}"], float("-inf"), None),
        (["x", "{a}"], "–x", ["x", "–x"]),
        (["x", "-o{a}"], "-rf", ["x", "-o-rf"]),
        (["x", "--out={a}"], "-rf", ["x", "--out=-rf"]),
        (["x", "--", "{a}"], "-rf", ["x", "--", "-rf"]),
        (["x", "./{a}"], "-rf", ["x", "./-rf"]),
    ],
)
def test_no_argument_becomes_an_option(tmp_path: Path, items: list[str], value: Any, argv: list[str] | None) -> None:
    tool = command(tmp_path, *items, parameters={"type": "object", "properties": {"a": {}}})
    if argv is not None:
        assert argv_of(tool, {"a": value}) == argv
        return
    for call in (lambda: argv_of(tool, {"a": value}), lambda: tool.run({"a": value})):
        with pytest.raises(OptionError, match='tool run: argument a begins with "-", so the command would take it'):
            call()


@pytest.mark.parametrize("value", ["a\0b", "\ud800"])
def test_text_that_no_argv_has_is_refused(tmp_path: Path, value: str) -> None:
    with pytest.raises(OptionError, match="tool run: argument a has a character that no command takes"):
        argv_of(command(tmp_path, "x", "{a}"), {"a": value})


def test_a_missing_argument_is_told(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="tool run: argument b is missing"):
        argv_of(command(tmp_path, "x", "{a}", "{b}"), {"a": ""})


@pytest.mark.parametrize(
    "items",
    [
        ["sh", "-c", 'ls "$1"', "sh", "{a}"],
        ["bash", "-c", "{a}"],
        ["bash", "-c", "--", "{a}"],
        ["bash", "script.sh", "-c", "x{a}"],
        ["grep", "-e", "x{a}", "-c"],
        ["pwsh", "-File", "x.ps1", "{a}"],
        ["python", "-m", "x", "{a}"],
    ],
)
def test_placeholders_beside_code_are_no_code(tmp_path: Path, items: list[str]) -> None:
    assert argv_of(command(tmp_path, *items), {"a": "v"}) == [item.replace("{a}", "v") for item in items]


@pytest.mark.parametrize(
    ("items", "problem"),
    [
        (["sh", "-c", "ls {a}"], "has the placeholder {a} inside of code"),
        (["/bin/bash", "-l", "-ec", "ls '{a}'"], "inside of code"),
        (["env", "X=1", "bash", "-c", "{a} "], "inside of code"),
        (["bash", "-euo", "pipefail", "-c", "ls {a}"], "inside of code"),
        (["bash", "--rcfile", "x", "+O", "extglob", "-euxc", "ls {a}"], "inside of code"),
        (["bash", "-c", "--", "ls {a}"], "inside of code"),
        (["node", "-p", "{a} + 1"], "inside of code"),
        (["perl", "-p", "-e", "s/{a}//"], "inside of code"),
        (["python3.12", "-W", "ignore", "-c", "print({a})"], "inside of code"),
        (["perl", "-ne", "print {a}"], "inside of code"),
        (["C:\\Windows\\CMD.exe", "/c", "dir", "{a}"], "inside of code"),
        (["powershell", "-Command", "dir", "{a}"], "inside of code"),
        (["run.BAT", "{a}"], "batch file"),
        (["{a}", "x"], "lets the model choose the program"),
        (["./{a}.sh"], "lets the model choose the program"),
    ],
)
def test_placeholders_in_code_are_refused(tmp_path: Path, items: list[str], problem: str) -> None:
    with pytest.raises(OptionError) as refused:
        command(tmp_path, *items)
    assert f"commands.json: tools[0] (run): command {problem}" in str(refused.value) or problem in str(refused.value)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{", "is not JSON: Expecting property name"),
        ('{"tools": {}}', 'has no list of tools; give {"tools": ['),
        ("[1]", "has no list of tools"),
        ([WEATHER, WEATHER], "two tools have the name weather"),
        ([WEATHER, {"name": "x"}], "tools[1] (x): command is no list of texts"),
        ([{"name": "x", "command": "ls -l"}], "tools[0] (x): command is no list of texts"),
        ([{"name": "x", "command": []}], "tools[0] (x): command is no list of texts"),
        ([{"name": "x", "command": ["ls", 1]}], "tools[0] (x): command is no list of texts"),
        ([{"name": "x", "command": [""]}], "tools[0] (x): command names no program"),
        (
            [{"name": "x", "command": ["ls"], "comand": 1}],
            "tools[0] (x): comand is no field of a command; there",
        ),
        ([{"command": ["ls"]}], "tools[0]: a tool has no name"),
        ([{"name": "a b", "command": ["ls"]}], "tools[0] (a b): the tool name 'a b' is not valid"),
        ([{"name": "x\x1b[0m", "command": ["ls"]}], "tools[0] (x\\x1b[0m): the tool name"),
        ([{"name": "x", "command": ["ls"], "parameters": 1}], "(x): tool x: parameters is no JSON schema"),
        (
            [{"name": "x", "command": ["ls", "{a}"], "parameters": {"properties": {"b": {}}}}],
            "(x): command has the placeholder {a}, but parameters.properties has no a",
        ),
        *(
            ([{"name": "x", "command": ["ls"], "timeout_s": value}], "(x): timeout_s is ")
            for value in (0, -1, True, "1", 10**400, float("nan"), float("inf"))
        ),
        ([{"name": "x", "command": ["ls"], "folder": 1}], "(x): folder is no path"),
        ([{"name": "x", "command": ["ls"], "folder": "nowhere"}], "(x): folder is nowhere, where there is no folder"),
    ],
)
def test_faults_are_told_in_one_line(tmp_path: Path, content: Any, problem: str) -> None:
    with pytest.raises(OptionError) as refused:
        read(tmp_path, content)
    message = str(refused.value)
    assert str(tmp_path / "commands.json") in message and problem in message
    assert message.isprintable()


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(EdgeLLMError, match=r"none.json: there is no such file"):
        read_commands(tmp_path / "none.json")
