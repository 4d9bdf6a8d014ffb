"""Calls that do not parse are told with their whole text; what follows is still read."""

import pytest

from edgellm.tools.calls import BrokenCall, ToolCall
from edgellm.tools.source import CUT_OFF
from support.call_styles import (
    BY_NAME,
    ODD,
    ODD_CALLS,
    ROME,
    TWO_CALLS,
    broken_in,
    calls_in,
    characters,
    pieces_of,
    read,
    text_in,
)

NAMES = sorted(BY_NAME)


@pytest.mark.parametrize("name", NAMES)
def test_a_reply_that_is_cut_off_anywhere_tells_what_came(name: str) -> None:
    """Each prefix of a reply: its text, its complete calls, and the begun one as it was written, with what is wrong."""
    form, reply = BY_NAME[name], TWO_CALLS[name]
    pieces = characters(pieces_of(form, reply, form.marks))
    kinds = set[tuple[int, int]]()
    for n in range(len(pieces)):
        events = read(form, pieces[:n], form.marks)
        broken = broken_in(events)
        written = "".join(piece if isinstance(piece, str) else piece.text for piece in pieces[:n])
        assert all(each.text and written.rstrip().endswith(each.text.rstrip()) for each in broken)
        assert calls_in(events) == [("weather", ROME), ("clock", {})][: len(calls_in(events))]
        assert len(broken) <= 1 and all(each.problem == CUT_OFF for each in broken), written
        kinds.add((len(calls_in(events)), len(broken)))
    assert {(0, 0), (0, 1), (1, 1)} <= kinds


@pytest.mark.parametrize("name", NAMES)
def test_a_call_of_any_values_that_is_cut_off_says_so(name: str) -> None:
    form = BY_NAME[name]
    pieces = characters(pieces_of(form, ODD_CALLS[name], form.marks))
    for n in range(len(pieces)):
        assert {broken.problem for broken in broken_in(read(form, pieces[:n], form.marks))} <= {CUT_OFF}, pieces[:n]


MARKED = sorted(set(NAMES) - {"llama3", "functionary"})


@pytest.mark.parametrize("name", MARKED)
def test_an_unknown_tool_is_told_and_the_next_call_is_read(name: str) -> None:
    form = BY_NAME[name]
    reply = ODD_CALLS[name].replace("weather", "rm") + ODD_CALLS[name]
    for tokens in (form.marks, ()):
        events = read(form, pieces_of(form, reply, tokens), tokens)
        first = events[0]
        assert isinstance(first, BrokenCall) and "rm" in first.text and "São" in first.text
        assert first.problem == "there is no tool rm; the tools are weather, clock"
        if name not in ("mistral", "granite"):  # their lists have no end but that of the reply
            assert [name for name, _ in calls_in(events)] == ["weather"] and len(events) == 2


@pytest.mark.parametrize(
    ("name", "call", "problem"),
    [
        ("hermes", '<tool_call>\n{"name": "weather", "arguments": {"city": "a"b"}}\n</tool_call>', "a comma or"),
        ("hermes", '<tool_call>\n{"name": "weather", "arguments": {"city": Rome}}\n</tool_call>', "'Rome' is no value"),
        ("hermes", "<tool_call>\n{'name': 'weather'}\n</tool_call>", "a key is missing"),
        ("hermes", '<tool_call>\n{"name": "weather", "arguments": [1]}\n</tool_call>', "the arguments are no object"),
        ("hermes", '<tool_call>\n{"arguments": {}}\n</tool_call>', "the call has no name"),
        ("hermes", '<tool_call>\n{"name": "weather", "arguments": {"n": 1e999}}\n</tool_call>', "1e999 is too large"),
        ("hermes", '<tool_call>\n{"name": "weather", "arguments": {"n": 01}}\n</tool_call>', "'01' is no value"),
        ("hermes", '<tool_call>\n{"name": "weather", "arguments": {"n": NaN}}\n</tool_call>', "'NaN' is no value"),
        ("hermes", '<tool_call>\n{"name": "weather", "arguments": {"a": "\\x"}}\n</tool_call>', "an escape"),
        ("hermes", "<tool_call>\n" + "[" * 200 + "\n</tool_call>", "deep inside each other"),
        ("hermes", "<tool_call>\n" + "9" * 5000 + "\n</tool_call>", "more than 400 characters"),
        ("hermes", "<tool_call>\nweather\n</tool_call>", "'weather' is no value"),
        ("hermes", "<tool_call>\n</tool_call>", "no value"),
        ("hermes", "<tool_call>[]</tool_call>", "there is no call in it"),
        ("qwen3_coder", "<tool_call>\n<function=weather><parameter=days>many</parameter></function></tool_call>",
         "the argument days is 'many', which is no integer"),
        ("qwen3_coder", "<tool_call>\nweather\n</tool_call>", "the tag of the function is missing"),
        ("qwen3_coder", "<tool_call>\n<function=weather>\ncity=Rome\n</function>\n</tool_call>", "the end of"),
        ("glm", "<tool_call>weather\n<arg_key>days</arg_key>\n<arg_value>1.5</arg_value>\n</tool_call>", "no integer"),
        ("glm", "<tool_call>weather\n<arg_key>days</arg_key>\nx</tool_call>", "a value is missing"),
        ("deepseek", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
         "the separator behind the name is missing"),
        ("deepseek", "<｜tool▁calls▁begin｜>weather<｜tool▁calls▁end｜>", "the beginning of a call is missing"),
        ("mistral v11", '[TOOL_CALLS]weather{"city": "Rome"}', "[ARGS] is missing"),
        ("gemma4", "<|tool_call>call:weather{city:Rome}<tool_call|>", "'Rome' is no value"),
        ("gemma4", "<|tool_call>weather{}<tool_call|>", "call: is missing"),
        ("lfm2", '<|tool_call_start|>[weather("Rome")]<|tool_call_end|>', "the name of an argument is missing"),
        ("lfm2", "<|tool_call_start|>weather()<|tool_call_end|>", "the list of calls is missing"),
        ("lfm2", "<|tool_call_start|>[weather(city=open('x'))]<|tool_call_end|>", "'open' is no value"),
        ("llama3", "<|python_tag|>print(1)", "neither JSON nor the call of a tool"),
        ("llama3", '{"name": "weather", "parameters": {"city": Rome}}', "'Rome' is no value"),
        ("functionary", 'weather\n{"city": }', "no value"),
        ("functionary v3.1", '<function=weather>{"city": }</function>', "no value"),
        ("harmony", "<|channel|>commentary to=functions.weather<|message|>{'a'}<|call|>", "a key is missing"),
        ("harmony", "<|channel|>commentary to=functions.weather<|message|>{} {}<|call|>", "text follows the value"),
        ("harmony", '<|channel|>commentary to=functions.weather<|message|>{"a": 1,<|call|>', "are not complete"),
        ("hermes", '<tool_call>\n{"name": "weather", "arguments": "{\\"a\\": tr"}\n</tool_call>', "are not complete"),
    ],
)  # fmt: skip
def test_malformed_calls_are_told_with_their_text_and_problem(name: str, call: str, problem: str) -> None:
    form = BY_NAME[name]
    before, after = ("", "") if name in ("llama3", "functionary", "harmony") else ("Hm. ", " So.")
    for tokens in (form.marks, ()):
        pieces = pieces_of(form, before + call + after, tokens)
        for each in (pieces, characters(pieces)):
            events = read(form, each, tokens)
            (broken,) = broken_in(events)
            assert problem in broken.problem and "\n" not in broken.problem
            if form.name in ("llama3", "mistral v11"):  # nothing but the end of the reply ends their calls
                assert broken.text == call + after
            else:
                assert broken.text == call
                assert text_in(events) == before.rstrip() + after


FORGOTTEN = {
    "hermes": "\n</tool_call>",
    "qwen3_coder": "\n</tool_call>",
    "gemma4": "<tool_call|>",
    "lfm2": "<|tool_call_end|>",
    "command_r": "<|END_ACTION|>",
    "deepseek": "<｜tool▁calls▁end｜>",
    "deepseek V3.1": "<｜tool▁calls▁end｜>",
    "functionary v3.1": "</function>",
    "harmony": "<|call|>",
}


@pytest.mark.parametrize("name", FORGOTTEN)
def test_complete_calls_count_without_the_last_mark(name: str) -> None:
    """Small models end their reply behind the arguments."""
    form, reply = BY_NAME[name], ODD_CALLS[name].removesuffix(FORGOTTEN[name])
    assert reply != ODD_CALLS[name]
    events = read(form, pieces_of(form, reply, form.marks), form.marks)
    assert calls_in(events) == [("weather", ODD)] and len(events) == 1


def test_each_call_of_a_list_counts_for_itself() -> None:
    form = BY_NAME["granite"]
    events = read(form, ['<|tool_call|>[{"name": "clock", "arguments": {}}, {"name": "rm"}]'])
    assert events == [
        ToolCall("call00000", "clock", {}),
        BrokenCall(' {"name": "rm"}]', "there is no tool rm; the tools are weather, clock"),
    ]


def test_arguments_may_be_text_with_json_or_missing() -> None:
    form = BY_NAME["hermes"]
    reply = '<tool_call>{"name": "weather", "arguments": "{\\"city\\": \\"Rome\\", \\"days\\": 3}"}</tool_call>'
    assert calls_in(read(form, [reply])) == [("weather", ROME)]
    assert calls_in(read(form, ['<tool_call>{"name": "clock"}</tool_call>'])) == [("clock", {})]
    nested = '<tool_call>{"type": "function", "function": {"name": "clock", "arguments": {}}}</tool_call>'
    assert calls_in(read(form, [nested])) == [("clock", {})]
    several = '<tool_call>[{"name": "clock"}, {"name": "clock"}]\n{"name": "clock"}</tool_call>'
    assert calls_in(read(form, [several])) == [("clock", {})] * 3


def test_ids_of_mistral_are_kept() -> None:
    form = BY_NAME["mistral v11"]
    (call,) = read(form, ["[TOOL_CALLS]clock[CALL_ID]VvvODy9mT[ARGS]{}"])
    assert call == ToolCall("VvvODy9mT", "clock", {})
    listed = BY_NAME["mistral"]
    (call,) = read(listed, ['[TOOL_CALLS] [{"name": "clock", "arguments": {}, "id": "VvvODy9mT"}]'])
    assert call == ToolCall("VvvODy9mT", "clock", {})


JSON_ANSWERS = [
    '{"answer": 5}',
    '{"name": "Alice", "age": 3}',
    '{"name": "weather", "age": 3}',
    '{"name": "weather"}',
    '{"type": "car", "parameters": {}}',
    "{not json at all",
    '{"parameters": {"city": "Rome"}, "name": "weather"}',
    "; then",
    '{"name": 5}',
    "{}",
    'The call is {"name": "clock", "parameters": {}}',
]


@pytest.mark.parametrize("answer", JSON_ANSWERS)
def test_json_that_is_no_call_is_the_answer(answer: str) -> None:
    form = BY_NAME["llama3"]
    for pieces in ([answer], list(answer)):
        assert read(form, pieces, form.marks) == [answer]


def test_a_json_answer_comes_as_soon_as_it_is_none() -> None:
    reader = BY_NAME["llama3"].reader({}, ())
    said = ["".join(map(str, reader.push(character))) for character in '{"answer": 5}']
    assert said[:9] == [""] * 9 and said[9] == '{"answer":'


def test_methods_behind_the_python_tag_are_calls() -> None:
    form = BY_NAME["llama3"]
    events = read(form, pieces_of(form, '<|python_tag|>weather.call(city="Rome", days=3)', form.marks), form.marks)
    assert calls_in(events) == [("weather", ROME)]


@pytest.mark.parametrize("text", [">>> print(1)\n1", "a >>>", ">>>rm\n{}", ">>>weathe"])
def test_arrows_of_other_text_are_text(text: str) -> None:
    form = BY_NAME["functionary"]
    for pieces in (["all\n" + text], list("all\n" + text)):
        assert read(form, pieces) == [text]
