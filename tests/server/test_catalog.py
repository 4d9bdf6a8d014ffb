"""The models that a server has, by the names that clients may use: no client names another file."""

from pathlib import Path

import httpx
import pytest

from edgellm import ModelFileError, UnsupportedModelError
from edgellm.server.catalog import Catalog
from edgellm.server.failures import RequestError
from support.auxiliary_files import auxiliary_file
from support.chat_model import write_chat_model
from support.local_models import Machine, machine, model
from support.served import BODIES, served

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


def test_files_of_no_model_are_not_served(machine: Machine) -> None:
    machine.write("models/a.gguf")
    head = machine.write("models/head.gguf", auxiliary_file("eagle3"))
    machine.write("models/mmproj.gguf", auxiliary_file("mmproj"))
    catalog = Catalog([])
    assert [each.name for each in catalog.models()] == ["a"]
    with pytest.raises(RequestError, match=r"no model 'b' here; there are: a$"):
        catalog.find("b")
    for name in ("head", "HEAD:latest"):
        with pytest.raises(RequestError, match=r"^head: holds an EAGLE-3 head, not a model; ") as refused:
            catalog.find(name)
        assert (refused.value.status, refused.value.code) == (400, "unsupported_model")
    for given in (["head"], ["a", str(head)]):
        with pytest.raises(UnsupportedModelError, match=r"head\.gguf: holds an EAGLE-3 head, not a model; "):
            Catalog(given)


def test_a_model_that_is_not_there_is_an_error_at_once(machine: Machine) -> None:
    with pytest.raises(ModelFileError, match="does not exist"):
        Catalog(["./none.gguf"])
    with pytest.raises(ModelFileError, match="no file and no model"):
        Catalog(["none"])
    with pytest.raises(ModelFileError, match="is a directory"):
        Catalog(["."])
    (machine.here / "config.json").touch()
    with pytest.raises(ModelFileError, match=r"is a checkpoint; `edgellm convert \. -o model\.gguf` makes"):
        Catalog(["."])


def test_messages_for_clients_have_names_in_place_of_paths(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    path = machine.write("models/a b-00001-of-00002.gguf")
    link = machine.here / "link.gguf"
    link.symlink_to(path)
    catalog = Catalog([str(link)])
    name = catalog.find(None).name
    for each in (path, link, link.absolute(), path.resolve()):
        assert catalog.without_paths(f"{each}: is damaged") == f"{name}: is damaged"
    second = path.with_name("a b-00002-of-00002.gguf").resolve()
    assert catalog.without_paths(f"{second}: is missing") == f"{second.name}: is missing"
    assert catalog.without_paths("give /v1/completions") == "give /v1/completions"
    draft = machine.write("other/draft.gguf")
    catalog.hide_path(draft)
    assert catalog.without_paths(f"no memory for {draft}") == "no memory for draft"


def test_a_server_without_a_model_opens_those_that_are_asked_for(machine: Machine) -> None:
    models = machine.here / "models"
    models.mkdir()
    write_chat_model(models / "words.gguf", 512)
    Path(models / "broken.gguf").write_bytes(b"GGUF\3\0\0\0")
    with served() as server:
        body = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 1}
        Path(models / "head.gguf").write_bytes(auxiliary_file("eagle3").build())
        names = [each["id"] for each in httpx.get(f"{server.url}/v1/models").json()["data"]]
        assert sorted(names) == ["broken", "words"]
        answers = {
            name: httpx.post(f"{server.url}/v1/chat/completions", json={**body, "model": name}, timeout=60)
            for name in ("words", "broken", "none", "head")
        }
        assert {name: answer.status_code for name, answer in answers.items()} == {
            "words": 200,
            "broken": 400,
            "none": 404,
            "head": 400,
        }
        answers |= {"entry": httpx.get(f"{server.url}/v1/models/head")}
        answers |= {"shown": httpx.post(f"{server.url}/api/show", json={"model": "head"})}
        for each in ("head", "entry", "shown"):
            assert answers[each].status_code == 400
            assert "head: holds an EAGLE-3 head, not a model; " in answers[each].text
        for route, asked in {**BODIES, "/api/show": {}}.items():
            told = httpx.post(f"{server.url}{route}", json={**asked, "model": "broken"}, timeout=60)
            assert told.status_code == 400 and "broken: is cut off" in told.text, route
            assert str(machine.here) not in told.text and ".gguf" not in told.text
        assert len(httpx.get(f"{server.url}/api/tags").json()["models"]) == 2
