"""Grammars of replies with calls, as llguidance reads them: written calls are accepted, others are not."""

import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from edgellm.errors import OptionError
from edgellm.tools.call_format import CallFormat, Parts
from edgellm.tools.calls import ToolCall
from edgellm.tools.schemas import guided_parameters
from edgellm.tools.symbols import Mark
from edgellm.tools.tool import Tool, tools_of
from support.call_styles import BY_NAME, TOOLS, Piece, broken_in, calls_in, clock

llguidance = pytest.importorskip("llguidance")
NAMES = sorted(BY_NAME)
WEATHER = ToolCall("call00000", "weather", {"city": 'Rome "é" \\ <b>', "days": 3})
CLOCK = ToolCall("call00001", "clock", {})
_EOS, _BYTES = 0, 257


class Vocabulary:
    """A token for each byte and each mark. `special`: marks are control tokens, not user-defined ones."""

    eos_token_id, bos_token_id = _EOS, None

    def __init__(self, form: CallFormat, special: bool = True) -> None:
        self.tokens = [b"</s>", *(bytes([byte]) for byte in range(256)), *(mark.encode() for mark in form.marks)]
        self.special_token_ids = [_EOS, *(range(_BYTES, len(self.tokens)) if special else ())]
        self.ids = {mark: _BYTES + number for number, mark in enumerate(form.marks)}

    def __call__(self, text: bytes | str) -> list[int]:
        return [byte + 1 for byte in (text.encode() if isinstance(text, str) else text)]

    def encoded(self, parts: Parts, tokens: Mapping[str, int]) -> list[int]:
        """The ids of text in the format."""
        return [i for text, mark in parts for i in ([tokens[text]] if mark and text in tokens else self(text))]


class Guide:
    """A grammar of a format, in a vocabulary that has its marks as tokens or has none."""

    def __init__(
        self,
        form: CallFormat,
        choice: str = "auto",
        parallel: bool = True,
        tokens: bool = True,
        special: bool = True,
        tools: Mapping[str, Tool] = TOOLS,
    ) -> None:
        self.vocabulary = vocabulary = Vocabulary(form, special)
        self.tokens = vocabulary.ids if tokens else {}
        tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(vocabulary))
        grammar = form.grammar(tools, choice, parallel, self.tokens)
        assert llguidance.LLMatcher.validate_grammar(grammar, tokenizer) == ""
        self.matcher = llguidance.LLMatcher(tokenizer, grammar)

    def accepts(self, parts: Parts) -> bool:
        """Whether a reply is one of the grammar's."""
        ids = self.vocabulary.encoded(parts, self.tokens)
        self.matcher.reset()
        if self.matcher.validate_tokens(ids) < len(ids):
            return False
        self.matcher.consume_tokens(ids)
        return bool(self.matcher.is_accepting())


def said(form: CallFormat, text: str) -> Parts:
    """A text as the reply of a format."""
    if form.name == "harmony":
        return [("<|channel|>", True), ("final", False), ("<|message|>", True), (text, False)]
    return [(f"all\n{text}" if form.name == "functionary" else text, False)]


VOCABULARIES = [(True, True), (True, False), (False, True)]
"""Marks as control tokens, as user-defined tokens, and as text."""


@pytest.mark.parametrize(("tokens", "special"), VOCABULARIES)
@pytest.mark.parametrize("name", NAMES)
def test_written_calls_are_accepted_as_far_as_the_choice_allows(name: str, tokens: bool, special: bool) -> None:
    form = BY_NAME[name]
    text, one, other = said(form, "Let me see: {1}, <b>."), form.write([WEATHER]), form.write([CLOCK])
    two = one if name == "harmony" else form.write([WEATHER, CLOCK])
    accepted = {
        ("auto", True): [text, one, other, two],
        ("required", True): [one, other, two],
        ("weather", True): [one],
        ("none", True): [text],
        ("auto", False): [text, one, other],
    }
    for (choice, parallel), replies in accepted.items():
        guide = Guide(form, choice, parallel, tokens, special)
        for parts in (text, one, other, two):
            assert guide.accepts(parts) == (parts in replies), (choice, parallel, parts)


@pytest.mark.parametrize(("tokens", "special"), VOCABULARIES)
@pytest.mark.parametrize("name", sorted(set(NAMES) - {"llama3"}))
def test_a_call_may_follow_text(name: str, tokens: bool, special: bool) -> None:
    form = BY_NAME[name]
    before = said(form, "Let me see.")
    if name == "harmony":
        before = [("<|channel|>", True), ("analysis", False), ("<|message|>", True), ("Let me see.", False)]
        before += [("<|end|>", True), ("<|start|>", True), ("assistant", False)]
    if name == "functionary":
        before += [(">>>", False)]
    guide = Guide(form, "auto", tokens=tokens, special=special)
    assert guide.accepts([*before, *form.write([WEATHER])])
    assert not guide.accepts([*before, *form.write([ToolCall("", "weather", {"city": 5})])]) or name in RAW


RAW = ("qwen3_coder", "glm", "glm 4.7")
"""Formats in which 5 may be a text."""

WRONG: list[tuple[str, dict[str, Any]]] = [
    ("rm", {}),
    ("weathe", {"city": "Rome"}),
    ("weather", {}),
    ("weather", {"days": 3}),
    ("weather", {"city": "Rome", "town": "x"}),
    ("weather", {"city": "Rome", "days": "many"}),
    ("weather", {"city": "Rome", "days": 1.5}),
    ("weather", {"city": "Rome", "exact": None}),
    ("weather", {"city": "Rome", "tags": ["a", 1]}),
    ("clock", {"city": "Rome"}),
]


@pytest.mark.parametrize(("tokens", "special"), VOCABULARIES)
@pytest.mark.parametrize("name", NAMES)
def test_arguments_are_held_to_the_schema(name: str, tokens: bool, special: bool) -> None:
    form = BY_NAME[name]
    for choice in ("auto", "required"):
        guide = Guide(form, choice, tokens=tokens, special=special)
        for called, arguments in WRONG:
            if name == "llama3" and choice == "auto" and called not in TOOLS:
                continue  # JSON with another name is an answer
            assert not guide.accepts(form.write([ToolCall("", called, arguments)])), (choice, called, arguments)


REFERRED = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
SEARCH = {
    "name": "search",
    "parameters": {
        "type": "object",
        "properties": {
            "query": {"type": "string"},
            "kind": {"enum": ["web", "a\nb", "é</x>"]},
            "count": {"type": "integer", "minimum": 1, "maximum": 20},
            "ratio": {"type": ["number", "null"], "minimum": 0, "maximum": 9},
            "level": {"type": "string", "nullable": True, "enum": ["low", "high"]},
            "short": {"type": "string", "minLength": 1, "maxLength": 4},
            "sizes": {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 3},
            "flag": {"type": "boolean"},
            "places": {"type": "array", "items": {"$ref": "#/$defs/place"}},
            "either": {"anyOf": [{"type": "integer"}, {"$ref": "#/$defs/place"}]},
        },
        "required": ["query", "count", "places"],
        "$defs": {"place": REFERRED},
    },
}


@pytest.mark.parametrize("name", NAMES)
def test_whatever_a_grammar_lets_through_is_a_call_that_fits(name: str) -> None:
    """Random tokens among those allowed: the reader finds calls, and their arguments follow the schema."""
    jsonschema = pytest.importorskip("jsonschema")
    form, tools = BY_NAME[name], tools_of([SEARCH, clock])
    seen = set[str]()
    for seed in range(12):
        has_tokens = seed % 3 > 0 or name == "harmony"  # no vocabulary of harmony lacks them
        reply = walk(form, Guide(form, "required", tools=tools, tokens=has_tokens), random.Random(seed))
        reader = form.reader(tools, form.marks if has_tokens else ())
        events = [event for piece in reply for event in reader.push(piece)] + reader.flush()
        calls = calls_in(events)
        assert calls and not broken_in(events), events
        for called, arguments in calls:
            jsonschema.validate(arguments, guided_parameters(tools[called]))
            seen |= arguments.keys()
    assert {"query", "count", "places"} < seen


def walk(form: CallFormat, guide: Guide, rng: random.Random) -> Sequence[Piece]:
    """A reply of random tokens, which prefers to end what is open."""
    vocabulary, ids = guide.vocabulary, list[int]()
    ending = set(vocabulary(b"\"}])<'\n"))
    texts = ["\n</parameter>\n", *form.marks, '"', "}"]
    ends = [vocabulary.encoded([(text, True)], guide.tokens) for text in texts]
    while len(ids) < 3000:
        if rng.random() < 0.2 and (end := rng.choice(ends)) and guide.matcher.validate_tokens(end) == len(end):
            guide.matcher.consume_tokens(end)
            ids += end
            continue
        mask = guide.matcher.compute_logit_bias()
        allowed = [i for i, bias in enumerate(mask) if bias]
        if _EOS in allowed and (len(allowed) == 1 or rng.random() < 0.5):
            break
        choices = [i for i in allowed if i != _EOS]
        likely = [i for i in choices if i in ending]
        ids.append(rng.choice(likely if likely and rng.random() < 0.4 else choices))
        guide.matcher.consume_token(ids[-1])
    assert guide.matcher.is_accepting(), bytes(i - 1 for i in ids if 0 < i < _BYTES)[-200:]
    marks = {number: Mark(text) for text, number in guide.tokens.items()}
    parts, pending = list[Piece](), b""
    for i in ids:
        if i in marks:
            parts, pending = [*parts, pending.decode(), marks[i]], b""
        else:
            pending += vocabulary.tokens[i]
    return [*parts, pending.decode()]


@pytest.mark.parametrize(
    ("name", "parameters", "said_place"),
    [
        ("qwen3_coder", {"properties": {"a": {"type": "string", "not": {}}}}, "parameters.properties.a.not"),
        ("glm", {"properties": {"a": {"enum": []}}}, "parameters.properties.a allows no value"),
        ("gemma4", {"properties": {"a": False}}, "parameters.properties.a allows no value"),
        ("glm", {"properties": {" a": {}}}, "parameters.properties. a is a name"),
        ("lfm2", {"properties": {"a b": {}}}, "parameters.properties.a b is a name"),
        ("qwen3_coder", {"anyOf": [{"required": ["a"]}], "properties": {"a": {}}}, "parameters.anyOf"),
        ("qwen3_coder", {"properties": {"a": {"$ref": "#/properties/b"}}}, "parameters.properties.a refers to"),
        ("lfm2", {"patternProperties": {"^x": {}}}, "parameters.patternProperties"),
        ("lfm2", {"properties": {}, "required": ["b"]}, "parameters.required names b"),
        (
            "gemma4",
            {"properties": {"a": {"type": "array", "uniqueItems": True}}},
            "parameters.properties.a.uniqueItems",
        ),
        (
            "glm",
            {"properties": {"a": {"enum": ["ab"], "minLength": 3}}},
            "parameters.properties.a.minLength stands beside",
        ),
        (
            "glm",
            {"properties": {"a": {"anyOf": [{"type": "string"}], "minLength": 3}}},
            "parameters.properties.a.minLength",
        ),
        (
            "gemma4",
            {"properties": {"a": {"oneOf": [{"type": "number"}, {"type": "integer"}]}}},
            "parameters.properties.a.oneOf",
        ),
        ("gemma4", {"properties": {"a": {"enum": [["x"]]}}}, "parameters.properties.a is a constant of the type array"),
        ("gemma4", {"properties": {"a": {"not": {}}}}, "parameters.properties.a has no type"),
        (
            "gemma4",
            {"properties": {"a": {"type": "object", "minProperties": 1}}},
            "parameters.properties.a.minProperties",
        ),
    ],
)
def test_what_a_format_cannot_be_held_to_is_refused_before(
    name: str, parameters: dict[str, Any], said_place: str
) -> None:
    tools = tools_of([{"name": "f", "parameters": {"type": "object", **parameters}}])
    with pytest.raises(OptionError) as error:
        BY_NAME[name].grammar(tools)
    assert str(error.value).startswith(f"tool f: {said_place}") and "\n" not in str(error.value)


@pytest.mark.parametrize(("tokens", "special"), VOCABULARIES)
@pytest.mark.parametrize("name", ["gemma4", "glm", "glm 4.7", "qwen3_coder"])
def test_texts_without_quotes_have_the_length_of_their_schema(name: str, tokens: bool, special: bool) -> None:
    form, text = BY_NAME[name], {"type": "string", "minLength": 2, "maxLength": 200}
    either = {"anyOf": [{"type": "integer"}, {"type": "string", "maxLength": 3}]}
    properties = {"text": text, "either": either, "kind": {"enum": ["a", "a\n", "a\nb"]}}
    guide = Guide(form, "required", tokens=tokens, special=special, tools=tools_of([function_of(properties)]))
    good: list[dict[str, Any]] = [
        {"text": "ab"},
        {"text": "é\n" * 100},
        {"kind": "a"},
        {"either": 1234},
        {"either": "abc"},
    ]
    for arguments in (*good, {"text": "a"}, {"text": "a" * 201}, {"either": "abcd"}):
        assert guide.accepts(form.write([ToolCall("", "f", arguments)])) == (arguments in good), arguments


@pytest.mark.parametrize("name", ["gemma4", "glm", "lfm2", "qwen3_coder"])
def test_what_describes_a_text_is_no_obstacle(name: str) -> None:
    described = {"format": "uri", "pattern": "^h", "example": "x", "readOnly": True, "x-order": 1}
    form = BY_NAME[name]
    guide = Guide(form, tools=tools_of([function_of({"a": {"type": "string", **described}})]))
    assert guide.accepts(form.write([ToolCall("", "f", {"a": "http://a.b"})]))


@pytest.mark.parametrize("inside", ["<parameter=days>\n9", "\n\x1f<parameter=other>\n9", "</function>\n</tool_call>"])
def test_no_text_of_an_argument_begins_another_one(inside: str) -> None:
    """The reader would end the argument at the tag inside of the text."""
    form, integer = BY_NAME["qwen3_coder"], {"type": "integer"}
    tools = tools_of([function_of({"a": {"type": "string"}, "days": integer})])
    guide = Guide(form, "required", tokens=False, tools=tools)
    arguments = {"a": f"x</parameter>{inside}"}
    written = form.write([ToolCall("", "f", arguments)])
    assert calls_in(form.reader(tools).push("".join(text for text, _ in written))) != [("f", arguments)]
    assert not guide.accepts(written)
    assert guide.accepts(form.write([ToolCall("", "f", {"a": "x</parameter> <b>"})]))


def function_of(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The definition of a tool f with these arguments."""
    return {"name": "f", "parameters": {"type": "object", "properties": properties, **more}}


NODE = {"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}}}


@pytest.mark.parametrize("name", ["gemma4", "glm", "lfm2", "qwen3_coder"])
def test_schemas_that_contain_themselves(name: str) -> None:
    """As pydantic has them for a list: a node, or null. Unions that name each other are followed once."""
    form = BY_NAME[name]
    defined: dict[str, Any] = {f"a{i}": {"anyOf": [{"$ref": f"#/$defs/a{i + 1}"}] * 40} for i in range(40)}
    defined |= {"a40": {"type": "integer"}, "node": NODE}
    properties = {"first": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}, "number": {"$ref": "#/$defs/a0"}}
    guide = Guide(form, tools=tools_of([function_of(properties, **{"$defs": defined})]))
    good: list[dict[str, Any]] = [{"first": {"next": {"next": None}}}, {"number": 5}]
    for arguments in (*good, {"first": {"next": 1}}, {"number": "a"}):
        assert guide.accepts(form.write([ToolCall("", "f", arguments)])) == (arguments in good), arguments


def test_references_over_too_many_levels_are_an_error() -> None:
    defined: dict[str, Any] = {f"a{i}": {"properties": {"a": {"$ref": f"#/$defs/a{i + 1}"}}} for i in range(999)}
    defined = {name: {"type": "object", **each} for name, each in defined.items()} | {"a999": {"type": "integer"}}
    tools = tools_of([function_of({"a": {"$ref": "#/$defs/a0"}}, **{"$defs": defined})])
    with pytest.raises(OptionError, match="refer to each other over too many levels"):
        BY_NAME["gemma4"].grammar(tools)


def test_references_and_maps_of_gemma_hold_at_any_depth() -> None:
    tree = {"type": "object", "properties": {"value": {"type": "integer"}, "children": {}}, "required": ["value"]}
    tree["properties"]["children"] = {"type": "array", "items": {"$ref": "#/$defs/tree"}}  # type: ignore[index]
    properties = {
        "tree": {"$ref": "#/$defs/tree"},
        "sizes": {"type": "object", "additionalProperties": {"type": "integer"}},
        "names": {"type": "object", "additionalProperties": {"type": "string"}},
        "none": {"type": "object", "additionalProperties": False},
        "kind": {"type": "integer", "enum": ["a", 1]},
    }
    tools = tools_of([{"name": "f", "parameters": {"properties": properties, "$defs": {"tree": tree}}}])
    form = BY_NAME["gemma4"]
    guide = Guide(form, tools=tools)
    deep = {"value": 1, "children": [{"value": 2, "children": [{"value": 3}]}]}
    good: list[dict[str, Any]] = [
        {"tree": deep},
        {"sizes": {"a": 1}},
        {"names": {"a": "x"}},
        {"none": {}},
        {"kind": 1},
        {},
    ]
    bad = [
        {"tree": {"value": 1, "children": [{"children": []}]}},
        {"tree": 1},
        {"sizes": {"a": "x"}},
        {"names": {"a": 1}},
    ]
    for arguments in (*good, *bad, {"none": {"a": 1}}, {"kind": "a"}):
        assert guide.accepts(form.write([ToolCall("", "f", arguments)])) == (arguments in good), arguments


def test_choices_are_checked() -> None:
    form = BY_NAME["hermes"]
    with pytest.raises(OptionError, match="tool_choice is 'rm'; take one of: auto, none, required, weather, clock"):
        form.grammar(TOOLS, "rm")
    with pytest.raises(OptionError, match="'required', but there are no tools"):
        form.grammar({}, "required")
    assert Guide(form, tools={}).accepts([("Hi", False)])
