"""Fixtures: tiny models, also with a draft model, guides or calls; drafts for every token; replies written before."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from edgellm import Model
from support.draft_models import damped, first_layers
from support.draft_pairs import PAIRS, DraftPair
from support.drafts import AllDrafts
from support.generation import RECURRENT, TINY
from support.gguf_parts import GGUFParts
from support.guided_models import THINKS
from support.model_file import ModelFile
from support.opened_drafts import Opening, write_draft_files
from support.scripted_replies import SIZES, Write, scripted_replies
from support.tool_templates import HERMES


@pytest.fixture
def all_drafts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgellm.generate.speculative_decoder.DraftPolicy", AllDrafts)


@pytest.fixture(scope="module", params=PAIRS)
def pair(
    model_file: ModelFile, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[DraftPair]:
    """A target whose layers behind the first two add an eighth of what they were made to; these two draft."""
    parts = GGUFParts.read(model_file(**PAIRS[request.param], context_length=1024))
    folder = tmp_path_factory.mktemp("pair")
    target, draft = folder / "target.gguf", folder / "draft.gguf"
    target.write_bytes(damped(parts, 2, 3).build())
    draft.write_bytes(first_layers(parts, 2).build())
    with Model.open(target, threads=2) as model:
        yield DraftPair(model, draft)


@pytest.fixture(scope="module")
def draft_files(model_file: ModelFile, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return write_draft_files(model_file, tmp_path_factory.mktemp("drafts"))


@pytest.fixture
def opening(monkeypatch: pytest.MonkeyPatch) -> Iterator[Opening]:
    found = Opening(monkeypatch)
    yield found
    found.go.set()


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
