"""`edgellm generate --tools`: calls on stdout as JSON lines, or as OpenAI's API has them, and mistakes in one line."""

import json
from pathlib import Path

import pytest

from support.generate_command import TINY, Done, generate, only_line
from support.model_file import ModelFile
from support.tool_templates import HERMES

PARAMETERS = {"type": "object", "properties": {"size": {"enum": [1, 2]}}, "required": ["size"]}
PAINT = {"type": "function", "function": {"name": "paint", "description": "Paint.", "parameters": PARAMETERS}}
LOOK = {"type": "function", "function": {"name": "look"}}


@pytest.fixture(scope="module")
def path(model_file: ModelFile) -> Path:
    return model_file(**TINY, tokenizer="calls hermes", chat_template=HERMES, context_length=4096)


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    file = tmp_path / "tools.json"
    file.write_text(json.dumps([PAINT, LOOK]), encoding="utf-8")
    return file


def paint(path: Path, *args: object) -> Done:
    return generate(path, "-p", "Paint", "--seed", 5, "--threads", 1, "--tool-choice", "paint", *args)


def test_calls_are_lines_of_json(path: Path, tools: Path) -> None:
    done = paint(path, "--tools", tools, "-q")
    assert done.returncode == 0 and not done.stderr
    calls = [json.loads(line) for line in done.stdout.splitlines()]
    assert calls and all(call["name"] == "paint" and call["arguments"]["size"] in (1, 2) for call in calls)


def test_json_has_the_calls_as_openai_does(path: Path, tools: Path, tmp_path: Path) -> None:
    wrapped = tmp_path / "wrapped.json"
    wrapped.write_text(json.dumps({"tools": [PAINT]}), encoding="utf-8")
    reply = json.loads(paint(path, "--tools", wrapped, "--json").stdout)
    assert (reply["finish_reason"], reply["text"], reply["broken_calls"]) == ("tool_calls", "", [])
    for number, call in enumerate(reply["tool_calls"]):
        assert (call["id"], call["type"], call["function"]["name"]) == (f"call{number:05}", "function", "paint")
        assert json.loads(call["function"]["arguments"])["size"] in (1, 2)
    lines = list(map(json.loads, paint(path, "--tools", wrapped, "--jsonl").stdout.splitlines()))
    assert [call for line in lines for call in line.get("tool_calls", [])] == reply["tool_calls"]


def test_commands_are_definitions_and_nothing_is_run(path: Path, tmp_path: Path) -> None:
    file = tmp_path / "commands.json"
    command = {"name": "paint", "parameters": PARAMETERS, "command": ["touch", f"{tmp_path}/painted{{size}}"]}
    file.write_text(json.dumps({"tools": [LOOK, command]}), encoding="utf-8")
    done = paint(path, "--tools", file, "-q")
    calls = [json.loads(line) for line in done.stdout.splitlines()]
    assert calls and all(call["name"] == "paint" and call["arguments"]["size"] in (1, 2) for call in calls)
    assert not list(tmp_path.glob("painted*"))


def test_a_call_that_is_cut_off_is_an_error(path: Path, tools: Path) -> None:
    done = paint(path, "--tools", tools, "-n", 12, "-q")
    assert done.returncode == 1 and not done.stdout
    assert b"a call that does not parse" in done.stderr and b"<tool_call>" in done.stderr
    assert paint(path, "--tools", tools, "-n", 12, "-q", "--partial").returncode == 0


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[", "is not JSON"),
        ('{"tool": []}', "has no list of tools; give a list of OpenAI definitions or commands"),
        ("[1]", "has no list of tools"),
        ('[{"type": "function", "function": {"name": "a b"}}]', "the tool name 'a b' is not valid"),
        ('[{"function": {"name": "a"}}, {"function": {"name": "a"}}]', "two tools have the name a"),
        ('[{"function": {"name": "a", "parameters": {"properties": {"x": 3}}}}]', "parameters.properties.x"),
        ('[{"function": {"name": "b"}}, {"name": "a", "command": "ls"}]', "tools[1] (a): command is no list of texts"),
    ],
)
def test_a_file_with_a_mistake_is_named(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "tools.json"
    file.write_text(text, encoding="utf-8")
    line = only_line(generate("missing.gguf", "-p", "x", "--tools", file), 2)
    assert problem in line and "tools.json" in line


def test_a_schema_that_no_guide_follows_is_named_with_its_file(path: Path, tmp_path: Path) -> None:
    file = tmp_path / "tools.json"
    file.write_text('[{"name": "a", "parameters": {"properties": {"x": {"enum": []}}}}]', encoding="utf-8")
    line = only_line(generate(path, "-p", "x", "--tools", file), 2)
    assert f"--tools: {file}: tool a: parameters: #/properties/x/enum is empty: give a list of values" in line


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (["--raw"], "--raw and --tools exclude each other"),
        (["--regex", "a+"], "--regex and --tools exclude each other: leave one out, or take none as --tool-choice"),
        (["--special"], "--special would show calls as text, so it and --tools exclude each other"),
        (["--tool-choice", "wash"], "--tool-choice is 'wash'; take one of: auto, none, required, paint, look"),
    ],
)
def test_mistakes_are_told_before_a_model_is_opened(tools: Path, args: list[str], problem: str) -> None:
    done = generate("missing.gguf", "-p", "x", "--tools", tools, *args)
    assert done.returncode == 2 and problem in done.stderr.decode()


@pytest.mark.parametrize("args", [["--tool-choice", "required"], ["--no-parallel-tool-calls"]])
def test_options_of_tools_without_tools_are_refused(args: list[str]) -> None:
    done = generate("missing.gguf", "-p", "x", *args)
    assert done.returncode == 2 and f"{args[0]} belongs to --tools" in done.stderr.decode()


def test_one_call_at_most_on_request(path: Path, tools: Path) -> None:
    def calls(seed: int, *args: str) -> int:
        return len(paint(path, "--tools", tools, "-q", "-n", 300, "--seed", seed, *args).stdout.splitlines())

    # Each try is a program; on the CPUs that were tried, seed 9 is the first with several calls.
    several = next(seed for seed in (9, *range(20)) if calls(seed) > 1)
    assert calls(several, "--no-parallel-tool-calls") == 1
