"""The client against `edgellm serve` on loopback."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from edgellm import Model
from edgellm.models import resolve
from edgellm.remote.address import server_address
from edgellm.remote.failures import ServerError
from edgellm.remote.model import RemoteModel, RemoteServer
from support.served import Served, served

ASKED = [{"role": "user", "content": "What is edgellm?"}]
GREEDY = {"temp": 0.0, "max_tokens": 24}


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with served(resolve("builtin"), api_key="k") as found:
        yield found


@pytest.fixture(scope="module")
def model(server: Served) -> RemoteModel:
    return RemoteServer(server_address(server.url), "k").model()


def test_the_same_text_as_in_this_process(model: RemoteModel) -> None:
    with Model.open(resolve("builtin"), threads=1) as local:
        chat = local.chat()
        expected = chat.reply(ASKED, **GREEDY).completion()
        plain = local.generate("Once upon a time", **GREEDY)
    found = model.reply(ASKED, GREEDY).completion()
    assert (found.text, found.finish_reason) == (expected.text, expected.finish_reason)
    assert found.stats.prompt_tokens == expected.stats.prompt_tokens
    assert found.stats.generated_tokens == expected.stats.generated_tokens and not found.stats.estimated
    assert model.complete("Once upon a time", GREEDY).completion().text == plain.text


def test_the_same_seed_gives_the_same_text_and_the_prefix_is_cached(model: RemoteModel) -> None:
    texts = [model.reply(ASKED, {"seed": 5, "max_tokens": 12}).completion() for _ in range(2)]
    assert texts[0].text == texts[1].text and texts[1].stats.cached_tokens > 0


@pytest.mark.parametrize(
    ("options", "answers"),
    [
        ({"choices": ("r.d", "b(l)ue")}, {"r.d", "b(l)ue"}),
        ({"regex": "[ab]{3}"}, None),
        ({"grammar": 'start: "x"'}, {"x"}),
    ],
)
def test_forms_that_edgellm_has(model: RemoteModel, options: dict[str, object], answers: set[str] | None) -> None:
    found = model.reply(ASKED, options).completion()
    assert answers is None or found.answer in answers


def test_a_reply_that_is_stopped_ends_at_the_server(model: RemoteModel, server: Served) -> None:
    found = model.complete("Once upon a time", {"max_tokens": 4000, "logit_bias": {0: 0.0}})
    next(found)
    found.cancel()
    assert list(found) == [] and found.finish_reason == "cancelled"
    server.wait_until_idle()


def test_a_wrong_key_and_an_option_that_is_refused(server: Served, model: RemoteModel) -> None:
    with pytest.raises(ServerError, match=r"wants a key \(401\)"):
        RemoteServer(server_address(server.url)).model()
    with pytest.raises(ServerError, match="has no model other; it has builtin"):
        RemoteServer(server_address(server.url), "k").model("other")
    with pytest.raises(ServerError, match=r"refuses the request \(400\)"):
        list(model.reply([{"role": "assistant", "content": "no question"}], {}))


def test_a_unix_socket(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with served(resolve("builtin"), unix=str(path)):
        found = RemoteServer(server_address(f"unix:{path}")).model()
        assert found.reply(ASKED, GREEDY).completion().text
        assert found.host == str(path)
