"""Replies of a server that answers as it is told: text, thoughts, calls and figures."""

import pytest

from support.fake_api import DONE, EVENTS, Answer, FakeAPI, delta, failing, saying, usage
from support.remote_replies import ASKED, reply


def test_a_reply_streams_with_its_figures(api: FakeAPI) -> None:
    answer = Answer([delta(role="assistant", content=""), delta(content="Hel"), delta(content="lo"), delta("stop")])
    answer.pieces = [*answer.pieces, usage(12, 7, 8, 3, 1), DONE]
    found = reply(api, answer, seed=3)
    pieces = [(piece.text, piece.finish_reason) for piece in found]
    assert pieces == [("Hel", None), ("lo", None), ("", "eog")]
    assert (found.text, found.finish_reason) == ("Hello", "eog")
    stats = found.stats
    assert (stats.prompt_tokens, stats.cached_tokens, stats.generated_tokens, stats.estimated) == (12, 8, 7, False)
    assert (stats.drafted, stats.accepted, stats.tokens_per_step) == (4, 3, None)
    assert stats.ttft_s is not None and stats.decode_tps and found.live().context_used == 19
    assert api.asked[-1].path == "/v1/chat/completions"
    assert api.asked[-1].body == {
        "model": "m",
        "messages": ASKED,
        "seed": 3,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_a_speed_is_that_of_tokens_once_the_server_tells_their_number(api: FakeAPI) -> None:
    answer = Answer([delta(content="a"), delta(content="b"), delta(content="c"), delta("stop"), usage(1, 21), DONE])
    found = reply(api, answer)
    next(found), next(found)
    assert found.stats.estimated and found.stats.generated_tokens == 2
    *_, last = found
    (gaps,) = {sum(found.live().gaps_ms)}
    assert last.stats.decode_tps == pytest.approx(20 / (gaps / 1000))  # 21 tokens, the first of which took the TTFT


def test_without_usage_pieces_are_counted(api: FakeAPI) -> None:
    found = reply(api, Answer([delta(content="a"), delta(content="b"), delta("stop")]))
    list(found)
    assert found.stats.estimated and found.stats.generated_tokens == 2 and found.stats.prompt_tokens == 0
    assert "2 pieces" in str(found.stats)


def test_a_server_that_does_not_know_stream_options_is_asked_without_them(api: FakeAPI) -> None:
    api.say(failing(400, "Unrecognized request argument supplied: stream_options"), saying("a"), saying("b"))
    model = api.model()
    assert [next(model.reply(ASKED, {})).text for _ in range(2)] == ["a", "b"]
    assert ["stream_options" in asked.body for asked in api.asked if asked.body] == [True, False, False]


def test_thoughts_are_marked_and_no_part_of_an_answer_in_a_form(api: FakeAPI) -> None:
    answer = Answer([delta(reasoning_content="hm"), delta(reasoning_content="!"), delta(content="red"), delta("stop")])
    found = reply(api, answer, choices=("red", "blue"))
    assert [(piece.text, piece.thinking) for piece in found][:3] == [
        ("<think>\nhm", True),
        ("!", True),
        ("\n</think>\n\n", True),
    ]
    assert found.answer == "red" and found.text.endswith("</think>\n\nred")


def test_a_thought_before_calls_is_ended(api: FakeAPI) -> None:
    call = {"index": 0, "id": "x", "type": "function", "function": {"name": "f", "arguments": '{"a"'}}
    rest = {"index": 0, "function": {"arguments": ": 1}"}}
    answer = Answer(
        [delta(reasoning="which?"), delta(tool_calls=[call]), delta(tool_calls=[rest]), delta("tool_calls")]
    )
    found = reply(api, answer)
    *_, last = found
    assert found.text == "<think>\nwhich?\n</think>\n\n" and found.finish_reason == "tool_calls"
    assert [(c.name, c.arguments) for c in last.tool_calls] == [("f", {"a": 1})]


@pytest.mark.parametrize(
    ("calls", "reason", "finish"),
    [(True, "stop", "tool_calls"), (False, "tool_calls", "eog"), (False, "length", "length")],
)
def test_a_reply_ends_with_calls_if_it_has_any(api: FakeAPI, calls: bool, reason: str, finish: str) -> None:
    call = {"index": 0, "id": "x", "function": {"name": "f", "arguments": "{}"}}
    found = reply(api, Answer([delta(**({"tool_calls": [call]} if calls else {"content": "a"})), delta(reason)]))
    list(found)
    assert found.finish_reason == finish


def test_the_media_type_of_a_stream(api: FakeAPI) -> None:
    found = reply(api, Answer([delta(content="a"), delta("stop")], kind=f"{EVENTS}; charset=utf-8"))
    list(found)
    assert found.text == "a"
