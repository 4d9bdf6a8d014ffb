"""Lists of models, and the name that is chosen from one."""

import pytest

from edgellm.remote.client import MAX_LISTING_BYTES
from edgellm.remote.failures import ServerError
from support.fake_api import Answer, FakeAPI, failing, listing


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


def test_a_proxy_gets_no_request_for_this_machine(api: FakeAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    assert api.model().name == "m"
