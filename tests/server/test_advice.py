"""Errors that clients get: what they may do next, in words for clients of HTTP."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from support.model_file import ModelFile
from support.served import BODIES, Served, served

SIZES: dict[str, Any] = {"width": 64, "heads": 2, "kv_heads": 1, "head_dim": 32, "ffn": 96, "types": "F32"}
CHATS = ("/v1/chat/completions", "/v1/responses", "/v1/messages", "/api/chat", "/api/generate")


@pytest.fixture(scope="module")
def base(model_file: ModelFile, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server of a model without a chat template."""
    link = tmp_path_factory.mktemp("served") / "m.gguf"
    link.symlink_to(model_file(**SIZES, tokenizer="gpt2", context_length=512, vocab=384))
    with served(link) as found:
        yield found


def ask(server: Served, path: str, **given: Any) -> httpx.Response:
    return httpx.post(f"{server.url}{path}", json={**BODIES[path], **given}, timeout=60)


@pytest.mark.parametrize("path", CHATS)
def test_a_model_without_a_template(base: Served, path: str) -> None:
    told = ask(base, path)
    assert told.status_code == 400
    for words in ("has no chat template", "/v1/completions", "/api/generate", "--server URL --raw"):
        assert words in told.text
    assert "--template" not in told.text and ".gguf" not in told.text


def test_the_ways_that_are_named_work(base: Served) -> None:
    assert ask(base, "/v1/completions", max_tokens=1).status_code == 200
    assert ask(base, "/api/generate", raw=True, stream=False, options={"num_predict": 1}).status_code == 200


def test_a_field_near_a_known_one(base: Served) -> None:
    told = ask(base, "/v1/completions", temprature=1).json()["error"]["message"]
    assert told == "not supported: temprature; did you mean temperature?"
    assert ask(base, "/v1/completions", zzz=1).json()["error"]["message"] == "not supported: zzz"
    told = ask(base, "/v1/completions", temprature=1, temperature=1).json()["error"]["message"]
    assert told == "not supported: temprature", "the field that is meant is given"


def test_the_method_is_named(base: Served) -> None:
    told = httpx.post(f"{base.url}/v1/models")
    assert (told.status_code, told.json()["error"]["message"]) == (405, "give GET, HEAD in place of POST: /v1/models")


def test_models_are_not_pulled(base: Served) -> None:
    told = httpx.post(f"{base.url}/api/pull", json={"model": "x"})
    assert told.json() == {"error": "models cannot be pulled over HTTP; use `edgellm pull`"}


def test_whether_it_is_stored_is_ignored(base: Served) -> None:
    assert ask(base, "/v1/completions", max_tokens=1, store=True).status_code == 200


def test_a_list_has_the_number_of_parameters(base: Served) -> None:
    (listed,) = httpx.get(f"{base.url}/api/tags").json()["models"]
    shown = httpx.post(f"{base.url}/api/show", json={"model": listed["name"]}).json()
    assert listed["details"] == shown["details"]
    assert listed["details"]["parameter_size"].endswith("k")
