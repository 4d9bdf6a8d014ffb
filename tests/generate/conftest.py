"""Fixtures of guided replies and of calls: tiny models, drafts for every token, and replies that are written before."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from edgellm import Model
from support.drafts import AllDrafts
from support.generation import RECURRENT, TINY
from support.guided_models import THINKS
from support.model_file import ModelFile
from support.scripted_replies import SIZES, Write, scripted_replies
from support.tool_templates import HERMES


@pytest.fixture
def all_drafts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgellm.generate.speculative_decoder.DraftPolicy", AllDrafts)


@pytest.fixture(scope="module", params=[TINY, RECURRENT], ids=["attention", "recurrent"])
def guided_path(model_file: ModelFile, request: pytest.FixtureRequest) -> Path:
    return model_file(**request.param, chat_template=THINKS)


@pytest.fixture(scope="module")
def guided_model(guided_path: Path) -> Iterator[Model]:
    with Model.open(guided_path, threads=2) as model:
        yield model


@pytest.fixture(scope="module")
def calling_model(model_file: ModelFile) -> Iterator[Model]:
    """A model whose template and vocabulary have the calls of Hermes."""
    file = model_file(**SIZES, tokenizer="calls hermes", chat_template=HERMES, context_length=4096)
    with Model.open(file, threads=1) as model:
        yield model


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Callable[[Model], Write]:
    """`scripted(model)(*replies)`: see `support.scripted_replies`."""
    return scripted_replies(monkeypatch)


@pytest.fixture
def write(calling_model: Model, scripted: Callable[[Model], Write]) -> Write:
    """`write(*replies)`: the next replies of `calling_model`."""
    return scripted(calling_model)
