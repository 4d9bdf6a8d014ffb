"""Suites: that of tools, those in files, those of long contexts."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from edgellm import OptionError, Tokenizer
from edgellm.evaluation import TOOLS_SUITE, Case, copy_cases, needle_cases, read_suite
from edgellm.evaluation.scoring import Reply, scores_of
from edgellm.gguf import GGUFFile
from edgellm.guides.compile import GuideCompiler
from edgellm.guides.spec import GuideSpec
from edgellm.text.tokenizer import Tokenizer as ModelTokenizer
from edgellm.tools.calls import ToolCall
from edgellm.tools.formats import FORMATS
from edgellm.tools.schemas import guided_parameters
from support import ROOT
from support.model_file import ModelFile

jsonschema = pytest.importorskip("jsonschema")


@pytest.fixture(scope="module")
def suite() -> list[Case]:
    return read_suite(TOOLS_SUITE.read_text(encoding="utf-8"), "tools")


@pytest.fixture(scope="module")
def tokenizer(model_file: ModelFile) -> ModelTokenizer:
    with GGUFFile.open(model_file(types="F32", tokenizer="gpt2", vocab=384)) as file:
        return Tokenizer(file)


def test_the_suite_of_tools_has_cases_of_each_kind(suite: list[Case]) -> None:
    assert len([case for case in suite if case.kind == "calls"]) == 40
    assert len([case for case in suite if case.json_schema is not None]) == 12
    wanted = [len(case.expected) for case in suite if case.kind == "calls"]
    assert (wanted.count(0), wanted.count(2)) == (8, 6)
    assert all(len(case.tools) >= 3 for case in suite if case.kind == "calls")
    assert len({case.digest for case in suite}) == len(suite)


def test_what_the_suite_expects_has_all_scores(suite: list[Case]) -> None:
    """By jsonschema, too: an expectation with a mistake would count right replies as wrong."""
    for case in suite:
        if case.kind == "calls":
            for call in case.expected:
                schema = guided_parameters(case.tools[call["name"]])
                jsonschema.validate(call["arguments"], schema)
                for name, values in call.get("allow", {}).items():
                    for value in values:
                        jsonschema.validate({**call["arguments"], name: value}, schema)
            reply = Reply("", tuple(ToolCall("1", call["name"], call["arguments"]) for call in case.expected))
        else:
            jsonschema.Draft202012Validator.check_schema(case.json_schema)
            if case.kind == "schema":
                continue
            jsonschema.validate(case.expected, case.json_schema)
            reply = Reply(json.dumps(case.expected))
        assert {*scores_of(case, reply).values()} == {1.0}, case.id


def test_every_format_of_calls_takes_the_tools_of_the_suite(suite: list[Case], tokenizer: ModelTokenizer) -> None:
    tools = {name: tool for case in suite for name, tool in case.tools.items()}
    assert len(tools) == 16
    compiler = GuideCompiler(tokenizer, tokenizer.n_vocab)
    for form in FORMATS:
        assert compiler.compile(GuideSpec("calls", form.grammar(tools)))(), form.name


CASE = {"prompt": "Hi", "expect": {"contains": "hello"}}
TOOL = {"name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}


def test_a_suite_with_all_that_it_may_have() -> None:
    document = {
        "description": "for people",
        "system": "Be brief.",
        "tools": [TOOL],
        "cases": [
            {"id": "a", "group": "g", "prompt": "Call", "tools": ["f"], "expect": {"calls": [{"name": "f"}]}},
            {**CASE, "system": "Be loud."},
            {"messages": [{"role": "user", "content": "x"}], "json_schema": {"type": "integer"}, "expect": {"json": 1}},
            {"prompt": "x", "json_schema": True},
        ],
    }
    call, text, value, schema = read_suite(json.dumps(document), "s.json")
    assert (call.id, call.groups, call.kind, [*call.tools]) == ("a", ("g",), "calls", ["f"])
    assert call.messages == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Call"}]
    assert (text.id, text.groups, text.kind, text.expected) == ("2", (), "contains", "hello")
    assert text.messages[0] == {"role": "system", "content": "Be loud."}
    assert (value.id, value.kind, value.expected, value.json_schema) == ("3", "json", 1, {"type": "integer"})
    assert (schema.kind, schema.expected, schema.json_schema) == ("schema", None, True)


def test_the_suite_in_the_documentation() -> None:
    text = (ROOT / "docs" / "evaluation.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^```json\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert [case.kind for case in read_suite(example, "s.json")] == ["contains", "calls", "calls", "json"]


def test_lines_of_cases_are_a_suite() -> None:
    other = {**CASE, "prompt": "Ho", "id": "x"}
    text = f"{json.dumps(CASE)}\n\n{json.dumps(other)}\n"
    assert [case.id for case in read_suite(text, "s.jsonl")] == ["1", "x"]
    assert read_suite(json.dumps([CASE, other]), "s.json") == read_suite(text, "s.jsonl")
    separated = {**CASE, "prompt": "Two\u2028lines\x85and\x1cmore"}
    text = "\r\n".join(json.dumps(each, ensure_ascii=False) for each in (separated, other))
    assert read_suite(text, "s.jsonl")[0].messages[0]["content"] == separated["prompt"]
    assert [case.id for case in read_suite(json.dumps(CASE), "s.jsonl")] == ["1"]
    assert [case.id for case in read_suite(json.dumps(CASE, indent=1), "s.json")] == ["1"]


def _of(**entry: Any) -> str:
    return json.dumps({"cases": [{**CASE, **entry}]})


def _calls(expected: Any, **entry: Any) -> str:
    return _of(**{"tools": [TOOL], "expect": {"calls": expected}, **entry})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "it is not JSON: "),
        ('{"cases": [\n1,]}', "it is not JSON: "),
        ("[" * 100_000, "it is not JSON: "),
        (f"{json.dumps(CASE)}\n{{", "line 2 is not JSON: "),
        ("1", "it has no list of cases; give {"),
        ('{"cases": []}', "it has no list of cases; give {"),
        ('{"cases": [1]}', "case 1 is no object"),
        ('{"cases": [], "tool": 1}', "tool is no key of a suite; the keys are cases, description, system, tools"),
        ('{"cases": [1], "system": 1}', "system is no text"),
        ('{"cases": [1], "tools": {}}', "tools is no list of definitions"),
        ('{"cases": [1], "tools": [{}]}', "a tool has no name"),
        (json.dumps([{**CASE, "id": "a"}] * 2), "two cases have the id a; give each an id of its own"),
        (_of(id=1), "case 1: id is no text"),
        (_of(id="q", prompts="x"), "case q: prompts is no key of a case; the keys are expect, group, id"),
        (_of(messages=[]), "case 1: give either prompt or messages"),
        (json.dumps([{"expect": {"equals": "x"}}]), "case 1: give either prompt or messages"),
        (json.dumps([{"messages": 1, "expect": {"equals": "x"}}]), "case 1: messages is no list"),
        (json.dumps([{"messages": [], "expect": {"equals": "x"}}]), "case 1: the last message is not from user or"),
        (_of(prompt=1), "case 1: message 1 must be a mapping with a text as role and one as content"),
        (_of(group=1), "case 1: group is no text"),
        (_of(expect={}), "case 1: expect has 0 keys; give one of the keys calls, json, contains, equals, regex,"),
        (_of(expect={"equals": "a", "contains": "a"}), "case 1: expect has 2 keys; give one of the keys calls"),
        (_of(expect={"equal": "a"}), "case 1: expect.equal is no expectation; give one of the keys calls"),
        (json.dumps([{"prompt": "x"}]), "case 1: expect is no object; give one of the keys calls"),
        (_of(expect={"contains": ""}), "case 1: expect.contains is no text"),
        (_of(expect={"equals": []}), "case 1: expect.equals is no text"),
        (_of(expect={"copy": ["a"]}), "case 1: expect.copy is no text"),
        (_of(expect={"regex": "("}), "case 1: expect.regex is no regular expression of Python: missing )"),
        (_of(expect={"json": 1}), "case 1: json_schema and the expectation json belong together"),
        (_of(json_schema=True), "case 1: json_schema and the expectation json belong together"),
        (_of(json_schema=1, expect={"json": 1}), "case 1: json_schema is no JSON schema"),
        (_of(json_schema={"not": {}}, expect={"json": 1}), "case 1: json_schema: #/not is a keyword that no guide"),
        (_of(json_schema={"type": "null"}, expect={"json": 1}), "case 1: expect.json is not valid against json_schema"),
        (_of(tools=[TOOL]), "case 1: tools and the expectation calls belong together"),
        (_of(expect={"calls": []}), "case 1: tools and the expectation calls belong together"),
        (_calls([], tools=1), "case 1: tools is no list of names and definitions"),
        (_calls([], tools=["g"]), "case 1: tools names g, which the suite does not define"),
        (_calls([], tools=[TOOL, TOOL]), "case 1: two tools have the name f"),
        (
            _calls([], tools=[{"name": "f", "parameters": {"properties": {"a": {"not": {}}}}}]),
            "case 1: tool f: parameters: #/properties/a/not is a keyword",
        ),
        (_calls({}), "case 1: expect.calls is no list of calls"),
        (_calls(["f"]), "case 1: expect.calls has an entry that is no call"),
        (_calls([{"name": "f", "args": {}}]), "case 1: expect.calls has an entry that is no call"),
        (_calls([{"name": "g"}]), "case 1: expect.calls names g, which is no tool of the case"),
        (_calls([{"name": ["f"]}]), "case 1: expect.calls names ['f'], which is no tool of the case"),
        (_calls([{"name": "f", "arguments": 1}]), "case 1: expect.calls has an entry whose arguments are no object"),
        (_calls([{"name": "f", "allow": {"a": 1}}]), "case 1: expect.calls.allow has a value that is no list"),
    ],
)  # fmt: skip
def test_a_mistaken_suite_is_refused_in_one_line(text: str, problem: str) -> None:
    with pytest.raises(OptionError, match="^s: " + re.escape(problem)) as told:
        read_suite(text, "s")
    assert "\n" not in str(told.value)


def test_a_fact_stands_at_its_depth(tokenizer: ModelTokenizer) -> None:
    cases = needle_cases(tokenizer, 4096, [600, 1200], 0)
    assert len(cases) == 20 and len({case.id for case in cases}) == 20
    for case in cases:
        text, _, question = case.messages[0]["content"].partition("\n\n")
        fact = f" is {case.expected}."
        assert text.count(fact) == 1 and case.expected not in question and question.endswith("alone.")
        length, depth = case.groups
        wanted = int(length.partition(" ")[0].replace(",", ""))
        assert wanted - 40 < len(tokenizer.encode(text)) < wanted + 40
        share = text.index(fact) / len(text)
        assert abs(share - int(depth.removeprefix("depth ").removesuffix("%")) / 100) < 0.1
        assert scores_of(case, Reply(f"It is {case.expected}.")) == {"overall": 1}


def test_neighbors_of_one_length_begin_alike(tokenizer: ModelTokenizer) -> None:
    """So the prefix cache has most of the next prompt."""
    *_, before, last = (case.messages[0]["content"] for case in needle_cases(tokenizer, 4096, [600], 0))
    same = next(i for i, (a, b) in enumerate(zip(before, last, strict=False)) if a != b)
    assert same > 0.9 * len(last) - 200


def test_lists_to_copy(tokenizer: ModelTokenizer) -> None:
    cases = copy_cases(tokenizer, 4096, [300], 0)
    assert len(cases) == len({case.expected for case in cases}) == 4
    for case in cases:
        assert case.messages[0]["content"].endswith(f"\n\n{case.expected}")
        assert case.extra_tokens == len(tokenizer.encode(case.expected))
        assert 250 < case.extra_tokens <= 340
        assert scores_of(case, Reply(case.expected)) == {"overall": 1, "exact": 1}


@pytest.mark.parametrize("make", [needle_cases, copy_cases])
def test_the_same_seed_makes_the_same_cases(make: Any, tokenizer: ModelTokenizer) -> None:
    first = make(tokenizer, 4096, [300], 7)
    assert make(tokenizer, 4096, [300], 7) == first == make(tokenizer, 8192, [300], 7)
    assert not {case.digest for case in first} & {case.digest for case in make(tokenizer, 4096, [300], 8)}


@pytest.mark.parametrize(
    ("make", "ctx", "lengths"),
    [
        (needle_cases, 600, [344]),
        (needle_cases, 256, [128]),
        (needle_cases, 1256, [1000]),
        (needle_cases, 5000, [1000, 4000]),
        (needle_cases, 10**6, [1000, 4000, 16_000]),
        (copy_cases, 600, [172]),
        (copy_cases, 3000, [250, 1000]),
    ],
)
def test_lengths_by_default_fit_the_context(make: Any, ctx: int, lengths: list[int], tokenizer: ModelTokenizer) -> None:
    if max(lengths) < 10_000:
        assert make(tokenizer, ctx, None, 0) == make(tokenizer, ctx, lengths, 0)
    else:
        assert {case.groups[0] for case in make(tokenizer, ctx, None, 0)} == {f"{each:,} tokens" for each in lengths}


def test_lengths_that_do_not_fit(tokenizer: ModelTokenizer) -> None:
    told = r"^4,000 tokens do not fit the context of 4,096 tokens: give lengths of at most 3,840, or choose a larger"
    with pytest.raises(OptionError, match=told):
        needle_cases(tokenizer, 4096, [1000, 4000], 0)
    with pytest.raises(OptionError, match="give lengths of at most 1,920"):
        copy_cases(tokenizer, 4096, [1921], 0)
    for make, least in ((needle_cases, 64), (copy_cases, 128)):
        assert make(tokenizer, least, None, 0)
        told = rf"^a context of {least - 1} tokens is too small: choose one of {least} or more$"
        with pytest.raises(OptionError, match=told):
            make(tokenizer, least - 1, None, 0)


def test_the_suite_is_beside_the_code() -> None:
    """Where the wheel has it: all files of the package are in it."""
    assert TOOLS_SUITE.is_file() and TOOLS_SUITE.parent == Path(read_suite.__code__.co_filename).parent
