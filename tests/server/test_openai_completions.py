"""/v1/completions and /v1/models, with the calls of OpenAI's own client, against a small model."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edgellm import Model
from support.chat_model import write_chat_model
from support.served import Served, served

openai = pytest.importorskip("openai")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_chat_model(tmp_path_factory.mktemp("served") / "Words.gguf", 512)


@pytest.fixture(scope="module")
def model(path: Path) -> Iterator[Model]:
    with Model.open(path, threads=1) as found:
        yield found


@pytest.fixture(scope="module")
def server(path: Path) -> Iterator[Served]:
    with served(path) as found:
        yield found


@pytest.fixture(scope="module")
def client(server: Served) -> Iterator[Any]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as found:
        yield found


def complete(client: Any, prompt: Any = "w1 w2", **given: Any) -> Any:
    return client.completions.create(**{"model": "Words", "prompt": prompt, "seed": 5, **given})


def test_a_text_is_that_of_python(client: Any, model: Model) -> None:
    found = complete(client)
    expected = model.generate("w1 w2", seed=5, max_tokens=16)  # OpenAI's default
    assert (found.choices[0].text, found.choices[0].finish_reason) == (expected.text, "length")
    assert found.object == "text_completion"
    assert found.usage.total_tokens == expected.stats.prompt_tokens + 16


def test_token_ids_are_a_prompt(client: Any, model: Model) -> None:
    ids = model.tokenizer.encode("w1 w2", add_special=True)
    assert complete(client, ids).choices[0].text == complete(client).choices[0].text
    assert model.generate(ids, seed=5, max_tokens=16).text == complete(client).choices[0].text


def test_several_prompts_with_several_texts_each(client: Any) -> None:
    found = complete(client, ["w1 w2", "w3"], n=2)
    assert [choice.index for choice in found.choices] == [0, 1, 2, 3]
    alone = [complete(client, prompt, seed=seed).choices[0].text for prompt in ("w1 w2", "w3") for seed in (5, 6)]
    assert [choice.text for choice in found.choices] == alone
    prompts = [complete(client, prompt).usage.prompt_tokens for prompt in ("w1 w2", "w3")]
    assert (found.usage.prompt_tokens, found.usage.completion_tokens) == (sum(prompts), 64)


def test_a_stream_has_the_same_text(client: Any) -> None:
    chunks = list(complete(client, stream=True, stream_options={"include_usage": True}))
    assert "".join(chunk.choices[0].text for chunk in chunks[:-1]) == complete(client).choices[0].text
    assert chunks[-2].choices[0].finish_reason == "length"
    assert chunks[-1].usage.completion_tokens == 16 and not chunks[-1].choices


def test_log_probabilities(client: Any, model: Model) -> None:
    found = complete(client, temperature=0, logprobs=3, max_tokens=4).choices[0].logprobs
    expected = model.generate("w1 w2", temp=0, logprobs=3, max_tokens=4).logprobs
    assert expected and found.token_logprobs == [each.logprob for each in expected]
    assert [list(top.values()) for top in found.top_logprobs] == [[o.logprob for o in e.top_logprobs] for e in expected]
    lengths = [len(token) for token in found.tokens]
    assert found.text_offset == [sum(lengths[:number]) for number in range(4)]


@pytest.mark.parametrize(
    ("given", "param"),
    [
        ({"prompt": [[1, 2], "x", 3]}, "prompt"),
        ({"prompt": []}, "prompt"),
        ({"prompt": {"a": 1}}, "prompt"),
        ({"prompt": None}, "prompt"),
        ({"prompt": [1, 10**9]}, "prompt"),
        ({"prompt": [-1]}, "prompt"),
        ({"prompt": "w1 " * 600}, "prompt"),
        ({"echo": True}, "echo"),
        ({"suffix": "x"}, "suffix"),
        ({"best_of": 3}, "best_of"),
        ({"logprobs": True}, "logprobs"),
        ({"temperature": "hot"}, "temperature"),
        ({"stream_options": {"other": 1}}, "stream_options.other"),
    ],
)
def test_errors_name_the_field(client: Any, given: dict[str, Any], param: str) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        complete(client, extra_body=given)
    assert caught.value.param == param


def test_the_models(client: Any, model: Model) -> None:
    assert [each.id for each in client.models.list()] == ["Words"]
    complete(client)  # opens it
    assert client.models.retrieve("words").id == "Words"
    assert {each.max_model_len for each in client.models.list()} == {model.ctx}
    with pytest.raises(openai.NotFoundError) as caught:
        client.models.retrieve("/etc/passwd")
    assert caught.value.code == "model_not_found"


def test_embeddings_are_refused_clearly(client: Any) -> None:
    with pytest.raises(openai.APIStatusError, match="embeddings are not supported") as caught:
        client.embeddings.create(model="Words", input="x")
    assert (caught.value.status_code, caught.value.code) == (400, "not_supported")


def test_health_and_metrics(client: Any, server: Served) -> None:
    import httpx

    complete(client)
    assert httpx.get(f"{server.url}/health").json()["status"] == "ok"
    found = httpx.get(f"{server.url}/metrics")
    assert found.headers["content-type"].startswith("text/plain; version=0.0.4")
    values = dict(line.rsplit(" ", 1) for line in found.text.splitlines() if not line.startswith("#"))
    replies = int(values['edgellm_replies_total{model="Words"}'])
    assert replies and values['edgellm_ttft_seconds_count{model="Words"}'] == str(replies)
    assert values['edgellm_ttft_seconds_bucket{model="Words",le="+Inf"}'] == str(replies)
    assert int(values['edgellm_itl_seconds_count{model="Words"}']) <= int(
        values['edgellm_generated_tokens_total{model="Words"}']
    )
    assert values["edgellm_requests_running"] == "0"
    assert values['edgellm_queue_seconds_count{model="Words"}'] == str(replies)
    hits, cached = (
        int(values[f'edgellm_{name}_total{{model="Words"}}']) for name in ("prefix_hits", "cached_prompt_tokens")
    )
    assert 0 < hits <= replies and cached >= hits
    assert 0 < float(values['edgellm_prefix_hit_ratio{model="Words"}']) < 1
    pages = {state: int(values[f'edgellm_kv_pages{{model="Words",state="{state}"}}']) for state in ("used", "cached")}
    assert pages["used"] == 0 < pages["cached"]
    assert 0 < int(values['edgellm_kv_bytes{model="Words"}']) <= int(values['edgellm_kv_budget_bytes{model="Words"}'])
