"""`edgellm generate` with a form: stdout conforms, or the command fails."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from support.generate_command import TINY, generate, only_line
from support.model_file import ModelFile

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"size": {"enum": ["small", "large"]}, "n": {"type": "integer", "minimum": 0, "maximum": 9}},
    "required": ["size", "n"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def path(model_file: ModelFile) -> Path:
    return model_file(**TINY, chat_template="{% for m in messages %}{{ m.content }}{% endfor %}<a>{# <think> #}")


def test_stdout_is_the_value(path: Path, tmp_path: Path) -> None:
    file = tmp_path / "schema.json"
    file.write_text(json.dumps(SCHEMA, indent=2))
    for schema in (file, json.dumps(SCHEMA)):
        done = generate(path, "-p", "the", "--json-schema", schema, "--think-max", "0", "-q")
        assert (done.returncode, done.stderr) == (0, b""), done.stderr
        assert done.stdout.endswith(b"}\n")
        jsonschema.validate(json.loads(done.stdout), SCHEMA)


def test_json_has_the_value(path: Path) -> None:
    done = generate(path, "-p", "the", "--json-schema", json.dumps(SCHEMA), "--think-max", "0", "--json")
    reply = json.loads(done.stdout)
    assert reply["parsed"] == json.loads(reply["answer"]) == json.loads(reply["text"])
    assert set(reply["stats"]["guided"]) == {"tokens", "mean", "worst", "worst_at"}
    assert "guide excluded" in done.stderr.decode()


@pytest.mark.parametrize(
    ("options", "texts"),
    [
        (["--choice", "yes", "--choice", "no"], ["yes", "no"]),
        (["--choices", "a b"], ["a b"]),
        (["--regex", "x{3}y?"], ["xxx", "xxxy"]),
        (["--raw", "--regex", "x"], ["x"]),
    ],
)
def test_other_forms(path: Path, options: list[str], texts: list[str]) -> None:
    done = generate(path, "-p", "the", *options, "--think-max", "0")
    assert done.stdout.decode() in [f"{text}\n" for text in texts]
    assert done.returncode == 0


@pytest.mark.parametrize("grammar", ['start: "x" ("y" | "z")\n', 'root ::= "x" [yz]\n'])
def test_a_grammar_comes_from_a_file(path: Path, tmp_path: Path, grammar: str) -> None:
    file = tmp_path / "grammar"
    file.write_text(grammar)
    assert generate(path, "-p", "the", "--grammar", file, "--think-max", "0").stdout in (b"xy\n", b"xz\n")


def test_what_the_model_thinks_is_left_out(path: Path) -> None:
    """Its vocabulary has no token for the tag, which begins with the byte of <."""
    options = ["--json-schema", json.dumps(SCHEMA), "--think-max", "4", "--logit-bias", f"{3 + ord('<')}=1000"]
    done = generate(path, "-p", "the", *options, "-q")
    jsonschema.validate(json.loads(done.stdout), SCHEMA)
    reply = json.loads(generate(path, "-p", "the", *options, "--json", "-q").stdout)
    assert reply["text"].startswith("<think>")
    assert "</think>" in reply["text"]
    jsonschema.validate(json.loads(reply["answer"]), SCHEMA)


def test_a_reply_that_is_cut_off_fails(path: Path) -> None:
    options = ["-p", "the", "--json-schema", json.dumps(SCHEMA), "--think-max", "0", "-n", "4"]
    done = generate(path, *options)
    assert done.returncode == 1
    assert done.stdout.endswith(b"\n")
    line = "edgellm: the reply was cut off after 4 tokens, before it conforms: "
    assert done.stderr.decode().startswith(line)
    assert done.stderr.count(b"\n") == 1
    assert b"or take it as it is (--partial)" in done.stderr
    as_json = generate(path, *options, "--json")
    assert (as_json.returncode, as_json.stderr) == (1, done.stderr)
    reply = json.loads(as_json.stdout)
    assert (reply["answer"], reply["finish_reason"], "parsed" in reply) == (done.stdout.decode()[:-1], "length", False)
    partial = generate(path, *options, "--partial")
    assert (partial.returncode, partial.stdout) == (0, done.stdout)


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--json-schema", '{"tpye": ""}'], "--json-schema: #/tpye is no keyword of JSON Schema: did you mean type?"),
        (["--json-schema", '{"items": {"not": {}}}'], "--json-schema: #/items/not is a keyword that no guide can hold"),
        (["--json-schema", '{"a"'], "--json-schema is not JSON: Expecting"),
        (["--regex", "a("], "--regex: unclosed group, at character 2"),
        (["--regex", "ab["], "--regex: unclosed character class, at character 3"),
        (["--regex", r"a\b b"], r"--regex: \b, \B and anchors inside of a regex are not supported; leave them out"),
        (
            ["--json-schema", '{"const": NaN}'],
            "--json-schema has NaN or Infinity, which no JSON has; give a finite number",
        ),
        (["--regex", "a", "--choice", "b"], "--regex and --choice exclude each other: give one"),
        (["--choice", ""], "--choice cannot be"),
        (["--json-schema", "true", "--stop", "x"], "--stop would cut off a reply that --json-schema holds to a form"),
        (["--think-max", "-2"], "--think-max cannot be -2"),
    ],
)
def test_wrong_forms_are_told_before_a_model_is_opened(options: list[str], line: str) -> None:
    assert line in only_line(generate("no-such-model", "-p", "the", *options), 2)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    for option in ("--json-schema", "--grammar"):
        for name in ("missing", "empty"):
            assert name in only_line(generate("no-such-model", "-p", "the", option, tmp_path / name), 1)


@pytest.mark.parametrize(
    ("text", "problem"), [("{", " is not JSON: Expecting"), ("[]", " has no JSON schema; give one")]
)
def test_the_file_of_a_wrong_schema_is_named(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "bad.json").write_text(text)
    line = only_line(generate("no-such-model", "-p", "the", "--json-schema", tmp_path / "bad.json"), 2)
    assert line.startswith(f"edgellm: --json-schema: {tmp_path / 'bad.json'}{problem}")


def test_partial_belongs_to_a_form_or_to_tools() -> None:
    done = generate("no-such-model", "-p", "the", "--partial")
    assert done.returncode == 2 and b"--partial belongs to a form" in done.stderr


@pytest.mark.parametrize("option", ["--json-schema", "--grammar", "--tools", "-f", "--system-file"])
def test_the_option_with_an_empty_name_of_a_file_is_named(option: str) -> None:
    line = f"edgellm: {option}: the name of the file is empty; give a text file\n"
    assert only_line(generate("no-such-model", "-p", "the", option, ""), 2) == line


def test_a_grammar_with_an_unknown_token_is_told_with_its_line(path: Path, tmp_path: Path) -> None:
    (tmp_path / "g").write_text('start: "x" end\nend: <|none|>\n')
    done = only_line(generate(path, "-p", "the", "--grammar", tmp_path / "g"), 2)
    assert '--grammar: line 2, column 6: unknown special token: "<|none|>"' in done
