"""Replies that are cancelled, or whose reader has gone."""

import gc
import socket
import threading
from queue import Queue

import pytest

from edgellm.remote.address import server_address
from edgellm.remote.client import ServerClient
from edgellm.remote.listing import ListedModel
from edgellm.remote.model import RemoteModel
from support.fake_api import TIMEOUT_S, Answer, FakeAPI, delta, saying
from support.remote_replies import ASKED, reply


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
    assert api.gone.wait(TIMEOUT_S)  # the server sees that its client has gone


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
