"""ollama's API, with the calls of its own client, against a small model."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from edgellm import Model, __version__
from support.served import Served
from support.tool_templates import TEMPLATES

ollama = pytest.importorskip("ollama")
jsonschema = pytest.importorskip("jsonschema")

QUESTION = [{"role": "user", "content": "Paint"}]
OPTIONS: dict[str, Any] = {"num_predict": 12, "seed": 3}
PAINT: dict[str, Any] = {
    "type": "object",
    "properties": {"color": {"enum": ["red", "blue"]}},
    "required": ["color"],
    "additionalProperties": False,
}
TOOL = {"type": "function", "function": {"name": "paint", "description": "Paint", "parameters": PAINT}}


@pytest.fixture(scope="module")
def client(server: Served) -> Iterator[Any]:
    with ollama.Client(server.url) as found:
        yield found


def test_a_chat_is_that_of_python(client: Any, model: Model) -> None:
    given = {**OPTIONS, "temperature": 0.9, "repeat_last_n": 8, "repeat_penalty": 1.3, "num_ctx": 512}
    found = client.chat("small:latest", QUESTION, options=given)
    python = {"max_tokens": 12, "seed": 3, "temp": 0.9, "penalty_last_n": 8, "repeat_penalty": 1.3}
    expected = model.chat().reply(QUESTION, **python).completion()
    assert (found.message.content, found.message.role, found.done_reason) == (expected.text, "assistant", "length")
    assert (found.done, found.eval_count, found.prompt_eval_count) == (True, 12, expected.stats.prompt_tokens)
    assert found.total_duration >= found.eval_duration > 0


def test_a_stream_has_the_same_text(client: Any) -> None:
    lines = list(client.chat("small", QUESTION, options=OPTIONS, stream=True))
    whole = client.chat("small", QUESTION, options=OPTIONS)
    assert "".join(line.message.content for line in lines) == whole.message.content
    assert [line.done for line in lines] == [False] * (len(lines) - 1) + [True]
    assert lines[-1].eval_count == 12


def test_a_call_and_its_result(client: Any) -> None:
    """ollama's API cannot ask for a call, so that the model has to begin one by chance."""
    options = {"num_predict": 200, "temperature": 5, "top_k": 0, "min_p": 0, "top_p": 1}
    for seed in range(40):
        message = client.chat("small", QUESTION, tools=[TOOL], options={**options, "seed": seed}).message
        if message.tool_calls:
            break
    assert message.tool_calls
    (call, *_) = message.tool_calls
    assert call.function.name == "paint"
    jsonschema.validate(dict(call.function.arguments), PAINT)
    result = {"role": "tool", "tool_name": "paint", "content": "done"}
    assert client.chat("small", [*QUESTION, message, result], tools=[TOOL], options=OPTIONS).done


def test_a_reply_in_json(client: Any) -> None:
    found = client.chat("small", QUESTION, format=PAINT, options={"num_predict": 60})
    assert found.message.content in ('{"color": "red"}', '{"color": "blue"}')


def test_generate(client: Any, model: Model) -> None:
    system = [{"role": "system", "content": "S"}, *QUESTION]
    found = client.generate("small", "Paint", system="S", options=OPTIONS)
    assert found.response == model.chat().reply(system, max_tokens=12, seed=3).completion().text
    lines = list(client.generate("small", "Paint", system="S", options=OPTIONS, stream=True))
    assert "".join(line.response for line in lines) == found.response and lines[-1].done
    raw = client.generate("small", "Paint", raw=True, options=OPTIONS)
    assert raw.response == model.generate("Paint", max_tokens=12, seed=3).text


def test_a_model_is_loaded_and_unloaded_on_request(client: Any, server: Served) -> None:
    assert client.generate("small", keep_alive="1h").done_reason == "load"
    (running,) = client.ps().models
    assert (running.name, running.context_length) == ("small", 4096)
    assert client.generate("small", keep_alive=0).done_reason == "unload"
    server.wait_until(lambda: not client.ps().models)
    assert client.chat("small", [], keep_alive=-1).done_reason == "load"


def test_the_models(client: Any, server: Served) -> None:
    (found,) = client.list().models
    assert (found.model, found.details.format, len(found.digest)) == ("small", "gguf", 64)
    shown = client.show("small")
    assert shown.capabilities == ["completion", "tools"]
    assert shown.modelinfo["llama.context_length"] == 4096 and shown.template == TEMPLATES["hermes"]
    assert httpx.get(f"{server.url}/api/version").json() == {"version": __version__}


@pytest.mark.parametrize(
    ("call", "status", "words"),
    [
        (lambda c: c.chat("other", QUESTION), 404, "there is no model 'other'"),
        (lambda c: c.chat("small", QUESTION, options={"temperature": -1}), 400, "options.temperature cannot be -1"),
        (lambda c: c.chat("small", QUESTION, options={"mirostat": 2}), 400, "options.mirostat is not supported"),
        (lambda c: c.chat("small", QUESTION, keep_alive="soon"), 400, "keep_alive must be seconds"),
        (lambda c: c.chat("small", QUESTION, think="much"), 400, "think must be"),
        (lambda c: c.chat("small", [{"role": "assistant", "content": "x"}]), 400, "end with one from user or tool"),
        (lambda c: c.generate("small", "x", suffix="y"), 400, "suffix is not supported"),
        (lambda c: c.generate("small", "x" * 5000), 400, "too long for the context"),
        (lambda c: c.embed("small", "x"), 400, "embeddings are not supported"),
        (lambda c: c.pull("small"), 400, "models cannot be pulled over HTTP"),
    ],
)
def test_errors_are_one_line(client: Any, call: Any, status: int, words: str) -> None:
    with pytest.raises(ollama.ResponseError, match=words) as caught:
        call(client)
    assert caught.value.status_code == status and "\n" not in caught.value.error
