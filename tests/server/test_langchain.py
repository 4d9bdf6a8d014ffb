"""LangChain's ChatOpenAI, against a small model."""

from typing import Any

import pytest

from edgellm import Model
from support.served import Served

COLORS: dict[str, Any] = {
    "title": "paint",
    "description": "Paint",
    "type": "object",
    "properties": {"color": {"enum": ["red", "blue"]}},
    "required": ["color"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def chat(server: Served) -> Any:
    langchain = pytest.importorskip("langchain_openai")  # here, as it takes seconds: the other worker needs none
    return langchain.ChatOpenAI(
        model="small", base_url=f"{server.url}/v1", api_key="none", max_tokens=12, seed=3, max_retries=0
    )


def test_invoke(chat: Any, model: Model) -> None:
    found = chat.invoke("Paint")
    expected = model.chat().reply([{"role": "user", "content": "Paint"}], max_tokens=12, seed=3).completion()
    assert found.content == expected.text
    assert found.usage_metadata["input_tokens"] == expected.stats.prompt_tokens
    assert found.response_metadata["finish_reason"] == "length"


def test_stream(chat: Any) -> None:
    parts = list(chat.stream("Paint"))
    assert len(parts) > 2 and "".join(part.content for part in parts) == chat.invoke("Paint").content


def test_several_at_once(chat: Any) -> None:
    assert [each.content for each in chat.batch(["Paint", "x"])] == [
        chat.invoke(text).content for text in ("Paint", "x")
    ]


def test_bind_tools(chat: Any, model: Model) -> None:
    bias = {str(token): 4.0 for token in model.tokenizer.eog_ids}  # so that random replies soon end
    found = chat.bind_tools([COLORS], tool_choice="paint").bind(max_tokens=400, logit_bias=bias).invoke("Paint")
    assert [call["name"] for call in found.tool_calls] == ["paint"] * len(found.tool_calls) != []
    assert found.tool_calls[0]["args"]["color"] in ("red", "blue")


@pytest.mark.parametrize("method", ["json_schema", "function_calling"])
def test_structured_output(chat: Any, model: Model, method: str) -> None:
    bias = {str(token): 4.0 for token in model.tokenizer.eog_ids}
    asking = chat.model_copy(update={"max_tokens": 400, "logit_bias": bias})
    assert asking.with_structured_output(COLORS, method=method).invoke("Paint")["color"] in ("red", "blue")


def test_an_error_names_the_field(chat: Any) -> None:
    with pytest.raises(Exception, match="temperature"):
        chat.bind(temperature=-1).invoke("Paint")
