"""The models that a server has, by the names that clients may use: no client names another file."""

from pathlib import Path

import httpx
import pytest

from edgellm import ModelFileError
from edgellm.server.catalog import Catalog
from edgellm.server.failures import RequestError
from support.chat_model import write_chat_model
from support.local_models import Machine, machine, model
from support.served import served

__all__ = ["machine"]


def found(catalog: Catalog, name: str | None) -> str:
    return catalog.find(name).path.name


def test_named_models_alone_are_served(machine: Machine) -> None:
    given, other = machine.write("models/Given.gguf"), machine.write("models/other.gguf", model(4))
    catalog = Catalog([str(given)])
    assert [each.name for each in catalog.models()] == ["Given"]
    for name in (None, "", "given", "GIVEN", "Given:latest", str(given)):
        assert found(catalog, name) == "Given.gguf"
    for name in ("other", str(other), "./models/other.gguf", "Giv"):
        with pytest.raises(RequestError, match="there is no model") as caught:
            catalog.find(name)
        assert (caught.value.status, caught.value.code) == (404, "model_not_found")


def test_all_models_of_the_machine_are_served(machine: Machine) -> None:
    machine.write("models/a.gguf")
    machine.ollama_model("registry.ollama.ai/library/qwen3/8b", "a", model(4))
    machine.ollama_model("registry.ollama.ai/library/phi/latest", "b", model(12))
    hidden = machine.write("hidden.gguf", model(16))
    catalog = Catalog([])
    assert {each.name for each in catalog.models()} == {"a", "qwen3:8b", "phi:latest"}
    assert found(catalog, "A") == "a.gguf"
    assert found(catalog, "qwen3:8b").startswith("sha256-aa")
    assert found(catalog, "phi") == found(catalog, "phi:latest")
    for name in ("hidden", "hidden.gguf", str(hidden), "./hidden.gguf", "../here/models/a.gguf", "qwen"):
        with pytest.raises(RequestError, match="there is no model"):
            catalog.find(name)
    with pytest.raises(RequestError, match="model is missing"):
        catalog.find(None)


def test_a_model_that_is_not_there_is_an_error_at_once(machine: Machine) -> None:
    with pytest.raises(ModelFileError, match="does not exist"):
        Catalog(["./none.gguf"])
    with pytest.raises(ModelFileError, match="no file and no model"):
        Catalog(["none"])
    with pytest.raises(ModelFileError, match="is a folder"):
        Catalog(["."])


def test_a_server_without_a_model_opens_those_that_are_asked_for(machine: Machine) -> None:
    models = machine.here / "models"
    models.mkdir()
    write_chat_model(models / "words.gguf", 512)
    Path(models / "broken.gguf").write_bytes(b"GGUF\3\0\0\0")
    with served() as server:
        body = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 1}
        names = [each["id"] for each in httpx.get(f"{server.url}/v1/models").json()["data"]]
        assert sorted(names) == ["broken", "words"]
        answers = {
            name: httpx.post(f"{server.url}/v1/chat/completions", json={**body, "model": name}, timeout=60)
            for name in ("words", "broken", "none")
        }
        assert {name: answer.status_code for name, answer in answers.items()} == {
            "words": 200,
            "broken": 400,
            "none": 404,
        }
        assert "broken.gguf" in answers["broken"].json()["error"]["message"]
        assert len(httpx.get(f"{server.url}/api/tags").json()["models"]) == 2
