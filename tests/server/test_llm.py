"""The tool `llm` with an OpenAI-compatible model, against a small model."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from edgellm import Model
from support.served import Served

llm = pytest.importorskip("llm")


@pytest.fixture(scope="module")
def asked(server: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The model as `llm` knows it from a user's file."""
    folder: Path = tmp_path_factory.mktemp("llm")
    entry = {"model_id": "mine", "model_name": "small", "api_base": f"{server.url}/v1", "supports_schema": True}
    (folder / "extra-openai-models.yaml").write_text(yaml.safe_dump([entry]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LLM_USER_PATH", str(folder))
        patch.setenv("OPENAI_API_KEY", "none")
        yield llm.get_model("mine")


def test_a_prompt(asked: Any, model: Model) -> None:
    found = asked.prompt("Paint", max_tokens=12, seed=3, stream=False)
    expected = model.chat().reply([{"role": "user", "content": "Paint"}], max_tokens=12, seed=3).completion()
    assert found.text() == expected.text
    assert found.usage().output == 12
    assert "".join(asked.prompt("Paint", max_tokens=12, seed=3)) == expected.text


def test_a_conversation(asked: Any) -> None:
    talk = asked.conversation()
    assert talk.prompt("Paint", max_tokens=4, seed=3).text()
    assert talk.prompt("More", max_tokens=4, seed=3).text()
    assert talk.responses[-1].usage().input > talk.responses[0].usage().input


def test_a_schema(asked: Any) -> None:
    colors = {"type": "object", "properties": {"color": {"enum": ["red"]}}, "required": ["color"]}
    found = asked.prompt("Paint", schema={**colors, "additionalProperties": False}, max_tokens=60)
    assert found.text() == '{"color": "red"}'
