"""vLLM in place of edgellm, with a module that pretends to be vLLM: what it is asked, and the answers made of that."""

import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from edgellm.batch.requests import BatchRequest, read_request
from edgellm.batch.vllm_model import VLLMModel, has_vllm


class FakeLLM:
    """Answers each prompt with its words in reverse, and keeps what it was asked."""

    def __init__(self, model: str) -> None:
        self.model, self.asked = model, list[Any]()

    def generate(self, prompts: list[Any], params: list[Any], use_tqdm: bool) -> list[Any]:
        if "long" in prompts:
            raise ValueError("The prompt is longer than the maximum model length")
        self.asked += zip(prompts, params, strict=True)
        return [_output(str(prompt), each) for prompt, each in zip(prompts, params, strict=True)]

    def chat(self, messages: list[Any], params: list[Any], use_tqdm: bool) -> list[Any]:
        self.asked += zip(messages, params, strict=True)
        texts = [f"<think>{len(each)}</think>{each[-1]['content']}" for each in messages]
        return [_output(text, each) for text, each in zip(texts, params, strict=True)]


def _output(text: str, params: Any) -> Any:
    reason = "length" if params.max_tokens == 1 else "stop"
    reply = SimpleNamespace(text=text, token_ids=[1, 2, 3], finish_reason=reason, stop_reason=None)
    return SimpleNamespace(prompt_token_ids=[1, 2], outputs=[reply])


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> VLLMModel:
    vllm = ModuleType("vllm")
    vllm.LLM = FakeLLM  # type: ignore[attr-defined]
    vllm.SamplingParams = lambda **given: SimpleNamespace(**given)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "vllm", vllm)
    return VLLMModel(Path("m.gguf"))


def request(**body: Any) -> BatchRequest:
    return read_request(json.dumps(body).encode(), "line", 1)


def test_answers_come_in_the_order_of_the_requests(model: VLLMModel) -> None:
    talk = [{"role": "user", "content": "Hi"}]
    shard = [
        (7, "a", request(prompt=["A B", [5, 6]], max_tokens=1, temperature=0, seed=3)),
        (8, "b", request(messages=talk, n=2, top_p=0.5, seed=1)),
        (9, "c", request(prompt="A", top_p=9)),
        (10, "d", request(messages=talk, logprobs=True)),
    ]
    answers = model.answers(shard, "m")
    assert [(answer.index, answer.status) for answer in answers] == [(7, 200), (8, 200), (9, 400), (10, 400)]
    bodies = [json.loads(answer.content)["response"]["body"] for answer in answers]
    assert [choice["text"] for choice in bodies[0]["choices"]] == ["A B", "{'prompt_token_ids': [5, 6]}"]
    assert [choice["finish_reason"] for choice in bodies[0]["choices"]] == ["length", "length"]
    assert bodies[0]["usage"]["total_tokens"] == 4 + 6
    message = bodies[1]["choices"][1]["message"]
    assert (message["content"], message["reasoning_content"]) == ("Hi", "1")
    assert bodies[2]["error"]["param"] == "top_p"
    assert "not supported by vLLM here: logprobs" in bodies[3]["error"]["message"]
    assert (answers[0].prompt_tokens, answers[0].generated_tokens) == (4, 6)


def test_a_request_that_vllm_refuses_harms_no_other(model: VLLMModel) -> None:
    shard = [(i, str(i), request(prompt=["long", "B"] if i == 2 else f"A{i}")) for i in range(5)]
    answers = model.answers(shard, "m")
    assert [answer.status for answer in answers] == [200, 200, 400, 200, 200]
    bodies = [json.loads(answer.content)["response"]["body"] for answer in answers]
    assert [body["choices"][0]["text"] for body in bodies if "choices" in body] == ["A0", "A1", "A3", "A4"]
    assert "longer than the maximum model length" in bodies[2]["error"]["message"]


def test_options_have_the_names_of_vllm(model: VLLMModel) -> None:
    body = request(prompt="A", max_tokens=5, temperature=0.5, repeat_penalty=1.5, seed=4, stop=["x"], min_p=0.1)
    model.answers([(0, "a", body)], "m")
    given = vars(model._model.asked[0][1])
    expected = {"max_tokens": 5, "temperature": 0.5, "repetition_penalty": 1.5, "seed": 4, "stop": ["x"], "min_p": 0.1}
    assert given == expected


def test_seeds_of_several_replies_differ(model: VLLMModel) -> None:
    model.answers([(0, "a", request(prompt="A", n=3, seed=5))], "m")
    assert [params.seed for _, params in model._model.asked] == [5, 6, 7]


def test_without_vllm_or_without_a_gpu_a_worker_is_edgellm(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {"vllm": False}
    monkeypatch.setattr("edgellm.batch.vllm_model.find_spec", lambda name: found[name] or None)
    assert not has_vllm()
    found["vllm"] = True
    torch = ModuleType("torch")
    torch.cuda = SimpleNamespace(is_available=lambda: False)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert not has_vllm()
    torch.cuda = SimpleNamespace(is_available=lambda: True)  # type: ignore[attr-defined]
    assert has_vllm()
