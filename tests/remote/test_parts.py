"""Parts of answers, as different servers write them, and as none should."""

import json
from typing import Any

import pytest

from edgellm.remote.answer import answer_parts
from edgellm.remote.calls import MAX_CALLS, CallAssembler
from edgellm.remote.failures import ServerError
from edgellm.remote.parts import AnswerPart, CallPiece, TokenUsage, answer_part
from support.fake_api import DONE, delta, event


def part(**values: Any) -> AnswerPart:
    return answer_part(json.dumps(values), "host")


def of_delta(**values: Any) -> AnswerPart:
    return part(choices=[{"index": 0, "delta": values}])


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_thoughts_have_two_names(field: str) -> None:
    assert of_delta(**{field: "hm"}) == AnswerPart(thought="hm")


@pytest.mark.parametrize(
    ("values", "usage"),
    [
        ({"prompt_tokens": 7, "completion_tokens": 2}, TokenUsage(7, 2, 0)),
        (
            {"prompt_tokens": 7, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 5}},
            TokenUsage(7, 2, 5),
        ),
        ({"prompt_tokens": 7, "completion_tokens": 2, "prompt_tokens_details": None}, TokenUsage(7, 2, 0)),
        ({"prompt_tokens": 7, "completion_tokens": 2, "prompt_cache_hit_tokens": 6}, TokenUsage(7, 2, 6)),
        ({"prompt_tokens": 7, "completion_tokens": 2, "prompt_cache_hit_tokens": 60}, TokenUsage(7, 2, 7)),
        (
            {
                "prompt_tokens": 7,
                "completion_tokens": 2,
                "completion_tokens_details": {"accepted_prediction_tokens": 3, "rejected_prediction_tokens": 4},
            },
            TokenUsage(7, 2, 0, 7, 3),
        ),
        (
            {
                "prompt_tokens": 7,
                "completion_tokens": 2,
                "completion_tokens_details": {"accepted_prediction_tokens": -3},
            },
            TokenUsage(7, 2, 0),
        ),
        ({"prompt_tokens": "7", "completion_tokens": 2}, None),
        ({"prompt_tokens": True, "completion_tokens": 2}, None),
        ({"prompt_tokens": -1, "completion_tokens": 2}, None),
        ({"prompt_tokens": 10**30, "completion_tokens": 2}, None),
        ([], None),
    ],
)
def test_usage_is_that_of_numbers_alone(values: Any, usage: TokenUsage | None) -> None:
    assert part(choices=[], usage=values).usage == usage


def test_llama_cpp_tells_cached_tokens_beside_the_usage() -> None:
    found = part(choices=[], usage={"prompt_tokens": 9, "completion_tokens": 1}, timings={"cache_n": 4})
    assert found.usage == TokenUsage(9, 1, 4)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        *(("stop", "eog"), ("length", "length"), ("tool_calls", "tool_calls"), ("function_call", "tool_calls")),
        *(("content_filter", "content_filter"), ("something else", "eog"), (None, None), (3, None)),
    ],
)
def test_finish_reasons(given: Any, reason: str | None) -> None:
    assert part(choices=[{"delta": {}, "finish_reason": given}]).reason == reason


def test_vllm_names_the_stop_string() -> None:
    assert part(choices=[{"delta": {}, "finish_reason": "stop", "stop_reason": "\n"}]).reason == "stop"
    assert part(choices=[{"delta": {}, "finish_reason": "stop", "stop_reason": None}]).reason == "eog"


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"choices": None},
        {"choices": [None, 3]},
        {"choices": [{"index": 1, "delta": {"content": "another reply"}}]},
        {"choices": [{"delta": {"content": 3, "reasoning_content": ["x"], "tool_calls": 4}}]},
        {"choices": [{"delta": None, "message": None, "text": None}]},
        {"error": None, "choices": []},
    ],
)
def test_what_is_of_another_type_is_left_out(values: Any) -> None:
    assert part(**values) == AnswerPart()


def test_half_of_a_surrogate_pair_becomes_text_that_can_be_stored() -> None:
    assert (
        answer_part(r'{"choices": [{"delta": {"content": "a\ud800b\ud83d\ude00"}}]}', "host").text
        == "a\ufffdb\U0001f600"
    )


@pytest.mark.parametrize("data", ["{", "", "[1]", "3", "[" * 100_000, "1" * 5000, '"text"'])
def test_what_is_no_part_is_one_line(data: str) -> None:
    with pytest.raises(ServerError) as error:
        answer_part(data, "host")
    assert str(error.value).startswith("host sends ") and "\n" not in str(error.value) and len(str(error.value)) < 300


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ({"message": "out of memory\n\x1b[2J"}, r"out of memory \x1b[2J"),
        ("broken", "broken"),
        ({"detail": "no"}, "no"),
        (3, "does not say why"),
        ({"error": {"error": {"error": {"message": "far inside"}}}}, "does not say why"),
    ],
)
def test_an_error_in_the_stream(error: Any, words: str) -> None:
    with pytest.raises(ServerError) as found:
        part(error=error)
    assert words in str(found.value) and "middle of the reply" in str(found.value)


def parts_of(*pieces: bytes, kind: str = "text/event-stream") -> list[AnswerPart]:
    return list(answer_parts(kind, pieces, "host"))


def test_a_stream_ends_with_done_or_a_reason() -> None:
    text, end = AnswerPart(text="a"), AnswerPart(reason="eog")
    assert parts_of(delta(content="a"), delta("stop")) == [text, end]
    assert parts_of(delta(content="a"), DONE, delta(content="never")) == [text]
    with pytest.raises(ServerError, match="ended the connection in the middle"):
        parts_of(delta(content="a"))
    with pytest.raises(ServerError, match="ended the connection"):
        parts_of(b": nothing\n\n")


def test_a_server_that_does_not_stream() -> None:
    whole = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "all"}, "finish_reason": "stop"}]}
    assert parts_of(json.dumps(whole).encode(), kind="application/json") == [AnswerPart(text="all", reason="eog")]


def test_a_web_page() -> None:
    with pytest.raises(ServerError, match="web page"):
        parts_of(b"<html>", kind="text/html")


def test_a_line_without_end_is_one_line_of_error() -> None:
    with pytest.raises(ServerError, match="longer line"):
        parts_of(*[b"data: " + b"x" * 1_000_000] * 6)
    with pytest.raises(ServerError, match="longer line"):
        parts_of(*[b" " * 1_000_000] * 6, kind="application/json")


def test_a_legacy_completion() -> None:
    assert parts_of(event(choices=[{"index": 0, "text": "so", "finish_reason": "length"}])) == [
        AnswerPart(text="so", reason="length")
    ]


def assembled(*pieces: CallPiece) -> list[tuple[str, str, Any]]:
    """The calls of pieces, and the broken ones: id, name and arguments, or text and problem."""
    assembler = CallAssembler("host", 2)
    for piece in pieces:
        assembler.add(piece)
    calls, broken = assembler.calls()
    return [(c.id, c.name, dict(c.arguments)) for c in calls] + [("", b.text, b.problem) for b in broken]


def test_arguments_come_in_pieces() -> None:
    found = assembled(CallPiece(0, "x", "f", ""), CallPiece(0, "", "", '{"a": '), CallPiece(0, "", "", "1}"))
    assert found == [("call00002", "f", {"a": 1})]


@pytest.mark.parametrize(
    "pieces",
    [
        [CallPiece(0, "x", "f", "{}"), CallPiece(1, "y", "g", "{}")],
        [CallPiece(0, "x", "f", "{}"), CallPiece(0, "y", "g", "{}")],  # whole calls, each with index 0
        [CallPiece(None, "x", "f", "{}"), CallPiece(None, "y", "g", "{}")],
        [CallPiece(None, "", "f", "{"), CallPiece(None, "", "", "}"), CallPiece(None, "", "g", "{}")],
        [CallPiece(0, "x", "f", ""), CallPiece(0, "x", "f", "{}"), CallPiece(1, "y", "g", "")],  # the name again
    ],
)
def test_two_calls_however_they_are_told_apart(pieces: list[CallPiece]) -> None:
    assert assembled(*pieces) == [("call00002", "f", {}), ("call00003", "g", {})]


@pytest.mark.parametrize("arguments", ['{"a": ', "[1]", "3", "nope", '{"a": NaN}', "[" * 100_000])
def test_arguments_that_are_no_object_are_broken_calls(arguments: str) -> None:
    (found,) = assembled(CallPiece(0, "x", "f", arguments), CallPiece(0, "", "", ""))
    assert found[1] == f"f({arguments})" and "\n" not in found[2]


def test_a_call_without_a_name_is_broken() -> None:
    assert assembled(CallPiece(0, "x", "", "{}")) == [("", "({})", "it names no tool")]


def test_arguments_that_are_an_object_already() -> None:
    found = of_delta(tool_calls=[{"index": 0, "function": {"name": "f", "arguments": {"a": 1}}}])
    assert assembled(*found.calls) == [("call00002", "f", {"a": 1})]


def test_calls_without_end() -> None:
    assembler = CallAssembler("host", 0)
    with pytest.raises(ServerError, match="more than"):
        for i in range(MAX_CALLS + 1):
            assembler.add(CallPiece(i, "", "f", "{}"))


@pytest.mark.parametrize("piece", [CallPiece(0, "", "", "x" * 100_000), CallPiece(0, "", "", "")])
def test_arguments_without_end(piece: CallPiece, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgellm.remote.calls.MAX_CHARACTERS", 1_000_000)
    assembler = CallAssembler("host", 0)
    with pytest.raises(ServerError, match="longer calls"):
        for _ in range(20_000):
            assembler.add(piece)
