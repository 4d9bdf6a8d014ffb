"""Replies of a server that answers as it is told."""

import gc
import socket
import threading
from collections.abc import Iterator
from queue import Queue
from typing import Any

import pytest

from edgellm.errors import EdgeLLMError, IncompleteOutputError
from edgellm.remote.address import server_address
from edgellm.remote.client import MAX_LISTING_BYTES, ServerClient
from edgellm.remote.failures import ServerError
from edgellm.remote.listing import ListedModel
from edgellm.remote.model import RemoteModel, RemoteServer
from edgellm.remote.reply import RemoteReply
from support.fake_api import (
    DONE,
    EVENTS,
    TIMEOUT_S,
    Answer,
    FakeAPI,
    delta,
    event,
    failing,
    fake_api,
    listing,
    saying,
    usage,
)

ASKED = [{"role": "user", "content": "Hi"}]
KEY = "sk-very-secret"


@pytest.fixture(scope="module")
def shared() -> Iterator[FakeAPI]:
    with fake_api() as found:
        yield found


@pytest.fixture
def api(shared: FakeAPI) -> FakeAPI:
    shared.answers, shared.asked, shared.models = [], [], listing({"id": "m", "owned_by": "vllm"})
    shared.gone.clear()
    return shared


def reply(api: FakeAPI, *answers: Answer, key: str | None = None, **options: Any) -> RemoteReply:
    api.say(*answers)
    return api.model(key=key).reply(ASKED, options)


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


def lines_of(found: RemoteReply) -> str:
    """The error of a reply, on one line."""
    with pytest.raises(EdgeLLMError) as error:
        list(found)
    line = str(error.value)
    assert "\n" not in line and "\x1b" not in line and KEY not in line
    return line


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
    line = lines_of(reply(api, answer, key=KEY))
    assert words in line and api.host in line
    posts = [asked for asked in api.asked if asked.body is not None]
    assert len(posts) == 1 and posts[0].headers["Authorization"] == f"Bearer {KEY}"


def test_without_a_key_the_line_says_how_to_give_one(api: FakeAPI) -> None:
    assert "EDGELLM_SERVER_KEY" in lines_of(reply(api, failing(401)))
    assert "Authorization" not in api.asked[-1].headers


@pytest.mark.parametrize("cut", [False, True])
def test_a_connection_that_ends_amid_a_reply_keeps_the_text(api: FakeAPI, cut: bool) -> None:
    found = reply(api, Answer([delta(content="so far")], cut=cut))
    line = lines_of(found)
    assert "ended the connection" in line and found.text == "so far"


def test_an_error_amid_a_reply_keeps_the_text(api: FakeAPI) -> None:
    found = reply(api, Answer([delta(content="so far"), event(error={"message": "out of memory"})]))
    assert "out of memory" in lines_of(found) and found.text == "so far"


def test_a_content_filter_is_an_error_that_keeps_the_text(api: FakeAPI) -> None:
    found = reply(api, Answer([delta(content="so far"), delta("content_filter")]))
    assert "content filter" in lines_of(found) and found.text == "so far"


@pytest.mark.parametrize("hold", [0, 1])
def test_cancel_ends_the_request_at_once(api: FakeAPI, hold: int) -> None:
    answer = Answer([delta(content="a")] + [delta(content="x" * 1000)] * 5000, hold=hold)
    found = reply(api, answer)
    texts = Queue[str]()
    reading = threading.Thread(target=lambda: [texts.put(piece.text) for piece in found])
    reading.start()
    assert answer.held.wait(TIMEOUT_S)
    assert [texts.get(timeout=TIMEOUT_S) for _ in range(hold)] == ["a"] * hold
    assert found.live().silent_s > 0
    found.cancel()
    reading.join(TIMEOUT_S)
    assert not reading.is_alive() and found.finish_reason == "cancelled" and texts.empty()
    assert found.live().silent_s == 0
    answer.go.set()
    assert api.gone.wait(TIMEOUT_S)  # the server sees that nobody reads


def test_a_reply_that_is_cancelled_before_it_begins_sends_nothing_twice(api: FakeAPI) -> None:
    found = reply(api, saying("a"))
    found.cancel()
    assert list(found) == [] and found.finish_reason == "cancelled" and found.text == ""


def test_a_reply_that_nobody_reads_closes_its_connection(api: FakeAPI) -> None:
    answer = Answer([delta(content="x" * 1000)] * 5000, hold=1)
    found = reply(api, answer)
    next(found)
    del found
    gc.collect()
    answer.go.set()
    assert api.gone.wait(TIMEOUT_S)


def test_a_reply_without_end_is_ended(api: FakeAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgellm.remote.text.MAX_CHARACTERS", 2500)
    found = reply(api, Answer([delta(content="x" * 1000)] * 5))
    assert "more than any reply" in lines_of(found) and len(found.text) == 2000


SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}


@pytest.mark.parametrize("text", ['{"a": 1}', '{\n  "a" : 1\n}'])
def test_a_reply_in_its_form_is_parsed(api: FakeAPI, text: str) -> None:
    assert reply(api, saying(text), json_schema=SCHEMA).completion().parsed == {"a": 1}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"json_schema": SCHEMA}, '{"a": "x"}'),
        ({"json_schema": SCHEMA}, "Sure! Here is your JSON"),
        ({"json_schema": SCHEMA}, '{"a": NaN}'),
        ({"choices": ("red", "blue")}, "green"),
        ({"regex": "[0-9]+"}, "12a"),
    ],
)
def test_a_server_that_ignores_the_form_is_an_error(api: FakeAPI, options: dict[str, Any], text: str) -> None:
    assert "did not hold the reply to" in lines_of(reply(api, saying(text), **options))


def test_a_reply_that_is_cut_off_before_it_conforms(api: FakeAPI) -> None:
    cut = Answer([delta(content='{"a"'), delta("length")])
    with pytest.raises(IncompleteOutputError) as error:
        list(reply(api, cut, json_schema=SCHEMA))
    assert error.value.completion.text == '{"a"'
    found = reply(api, cut, json_schema=SCHEMA, partial=True)
    assert found.completion().parsed is None and found.finish_reason == "length"


# Lists of models


def problem(api: FakeAPI, name: str = "") -> str:
    with pytest.raises(ServerError) as error:
        api.model(name)
    assert "\n" not in str(error.value) and "\x1b" not in str(error.value)
    return str(error.value)


def test_the_only_model_needs_no_name(api: FakeAPI) -> None:
    api.models = listing({"id": "one", "max_model_len": 4096})
    assert (api.model().name, api.model().ctx) == ("one", 4096)


def test_of_several_models_one_is_named(api: FakeAPI) -> None:
    api.models = listing(*({"id": f"m{i}"} for i in range(14)), {"id": "evil\x1b[2J"}, {"id": 3}, {})
    assert problem(api).endswith("name one of the models at " + api.host + ": " + problem(api).partition(": ")[2])
    assert "m0, m1" in problem(api) and "and 2 more" in problem(api)
    assert "no model zzz" in problem(api, "zzz")
    assert api.model("M3").name == "m3"


@pytest.mark.parametrize(
    ("given", "name"), [("llama3", "llama3:latest"), ("org/m:free", "org/m:free"), ("LLAMA3:latest", "llama3:latest")]
)
def test_names_that_servers_shorten(api: FakeAPI, given: str, name: str) -> None:
    api.models = listing({"id": "llama3:latest"}, {"id": "org/m"})
    assert api.model(given).name == name


def test_a_server_without_a_list_takes_any_name(api: FakeAPI) -> None:
    api.models = failing(404)
    assert api.model("any").name == "any"
    assert "has no models" in problem(api)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Answer([b"<html>"], kind="text/html"), "does not list its models"),
        (Answer([b'{"data": 3}']), "does not list its models"),
        (Answer([b" " * 65_536] * (MAX_LISTING_BYTES // 65_536 + 2)), "more than any list"),
        (failing(401), "wants a key (401)"),
    ],
)
def test_what_is_no_list_of_models(api: FakeAPI, answer: Answer, words: str) -> None:
    api.models = answer
    assert words in problem(api)


# Servers that are not there


def test_no_server() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(ServerError, match=f"no server answers at {host}"):
        RemoteServer(server_address(f"http://{host}")).models()


def test_a_server_that_is_not_http() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            for _ in range(2):
                connection, _address = listening.accept()
                connection.recv(65_536)
                connection.sendall(b"220 mail.example ESMTP\r\n")
                connection.close()

        threading.Thread(target=answer, daemon=True).start()
        host = f"127.0.0.1:{listening.getsockname()[1]}"
        with pytest.raises(ServerError, match=r"ended the connection, or is no HTTP server"):
            RemoteServer(server_address(f"http://{host}")).models()
        with pytest.raises(ServerError, match=r"is it https or http\?"):
            RemoteServer(server_address(f"https://{host}")).models()


def test_a_list_that_trickles_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgellm.remote.client.LISTING_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        gone = threading.Event()

        def trickle() -> None:
            connection, _address = listening.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n")
                for _ in range(TIMEOUT_S * 100):
                    try:
                        connection.sendall(b" ")
                    except OSError:
                        gone.set()
                        return
                    gone.wait(0.01)

        threading.Thread(target=trickle, daemon=True).start()
        host = f"127.0.0.1:{listening.getsockname()[1]}"
        with pytest.raises(ServerError, match="did not list its models in"):
            RemoteServer(server_address(f"http://{host}")).models()
        assert gone.wait(TIMEOUT_S)


def test_cancel_ends_a_handshake_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgellm.remote.client.CONNECT_S", 10.0 * TIMEOUT_S)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = server_address(f"https://127.0.0.1:{listening.getsockname()[1]}")
        found = RemoteModel(ServerClient(address, None), ListedModel("m")).reply(ASKED, {})
        reading = threading.Thread(target=lambda: list(found), daemon=True)
        reading.start()
        connection, _address = listening.accept()
        with connection:
            assert connection.recv(1)  # the client's part of the handshake
            found.cancel()
            reading.join(TIMEOUT_S)
            assert not reading.is_alive() and found.finish_reason == "cancelled"


@pytest.mark.parametrize("host", ["999.1.1.1:1", "[::1]x:80", "[v1.x]:80"])
def test_what_is_no_host(host: str) -> None:
    with pytest.raises(ServerError, match="is no host of a server"):
        RemoteServer(server_address(f"http://{host}")).models()


def test_a_proxy_gets_no_request_for_this_machine(api: FakeAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    assert api.model().name == "m"


def test_the_media_type_of_a_stream(api: FakeAPI) -> None:
    found = reply(api, Answer([delta(content="a"), delta("stop")], kind=f"{EVENTS}; charset=utf-8"))
    list(found)
    assert found.text == "a"
