"""Requests that fail, and replies that do not end as they should: one line, and the text so far."""

import pytest

from support.fake_api import Answer, FakeAPI, delta, event, failing
from support.remote_replies import KEY, error_line, reply


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (failing(401), "refuses the key (401)"),
        (failing(403, "no"), "(403): no"),
        (failing(404, "The model `m` does not exist."), "(404): The model `m` does not exist."),
        (failing(429, "slow down", retry_after="7"), "(429): slow down; try again in 7 s"),
        (failing(429, "slow down"), "try again later"),
        (failing(429, "slow down", retry_after="250"), "try again in 4:10"),
        (failing(503, "loading", retry_after="-3"), "(503): loading; try again later"),
        (failing(500, "evil \x1b[2J\n text"), r"evil \x1b[2J text"),
        (failing(400, f"your key {KEY} is odd"), "your key … is odd"),
        (Answer([], 307, headers={"location": f"http://evil.example/{KEY}"}), "evil.example/…"),
        (Answer([b'{"error":' * 900 + b"1" + b"}" * 900], 400), "(400)"),
        (Answer([b"\xff\xfe"], 502, "text/html"), "(502); try again later"),
        (Answer([b'{"error": "model not found"}'], 404), "(404): model not found"),
        (Answer([b'{"detail": "nope"}'], 422), "(422): nope"),
        (Answer([b"[" * 60_000], 400), "(400)"),
        (Answer([], 302, headers={"location": "http://evil.example/v1"}), "redirects to http://evil.example/v1"),
        (Answer([b"<html>"], kind="text/html; charset=utf-8"), "web page"),
        (Answer([b"x"], headers={"content-encoding": "gzip"}), "compressed form"),
        (Answer([b"data: {\n\n"]), "what is not JSON"),
        (Answer([event(error={"message": f"broke with {KEY}"})]), "broke with …"),
    ],
)
def test_each_failure_is_one_line(api: FakeAPI, answer: Answer, words: str) -> None:
    line = error_line(reply(api, answer, key=KEY))
    assert words in line and api.host in line
    posts = [asked for asked in api.asked if asked.body is not None]
    assert len(posts) == 1 and posts[0].headers["Authorization"] == f"Bearer {KEY}"


def test_without_a_key_the_line_says_how_to_give_one(api: FakeAPI) -> None:
    assert "EDGELLM_SERVER_KEY" in error_line(reply(api, failing(401)))
    assert "Authorization" not in api.asked[-1].headers


@pytest.mark.parametrize("cut", [False, True])
def test_a_connection_that_ends_amid_a_reply_keeps_the_text(api: FakeAPI, cut: bool) -> None:
    found = reply(api, Answer([delta(content="so far")], cut=cut))
    line = error_line(found)
    assert "ended the connection" in line and found.text == "so far"


def test_an_error_amid_a_reply_keeps_the_text(api: FakeAPI) -> None:
    found = reply(api, Answer([delta(content="so far"), event(error={"message": "out of memory"})]))
    assert "out of memory" in error_line(found) and found.text == "so far"


def test_a_content_filter_is_an_error_that_keeps_the_text(api: FakeAPI) -> None:
    found = reply(api, Answer([delta(content="so far"), delta("content_filter")]))
    assert "content filter" in error_line(found) and found.text == "so far"


def test_a_reply_without_end_is_ended(api: FakeAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgellm.remote.text.MAX_CHARACTERS", 2500)
    found = reply(api, Answer([delta(content="x" * 1000)] * 5))
    assert "more than any reply" in error_line(found) and len(found.text) == 2000
