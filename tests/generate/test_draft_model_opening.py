"""The engine of a draft model: loaded in the background, closed with its model, within a limit of memory."""

import gc
import warnings
from pathlib import Path
from threading import Thread
from threading import enumerate as running_threads
from weakref import ref

import pytest

from edgellm import Model
from edgellm.errors import EdgeLLMError, EdgeLLMWarning, NoMemoryError
from edgellm.speculation import auto_draft, draft_file, draft_model
from kquants.kv_layout import PAGE
from support.opened_drafts import PROMPT, REPLY, SIZES, Opening, text_of, until

pytestmark = pytest.mark.usefixtures("all_drafts")

CELL = 2 * SIZES["kv_heads"] * SIZES["head_dim"] * 2
"""Bytes of the keys and values of a token in one layer."""


def test_replies_begin_before_the_draft_model_is_there_and_then_use_it(
    draft_files: tuple[Path, Path], opening: Opening
) -> None:
    with Model.open(draft_files[0]) as model:
        alone = text_of(model)
    with Model.open(draft_files[0], draft=str(draft_files[1])) as model:
        assert opening.begun.wait(60)
        assert text_of(model) == alone
        assert not opening.engines and model.drafts_with is None
        reply = model.stream(PROMPT, **REPLY)
        first = next(reply).id
        opening.go.set()
        until(lambda: model.drafts_with)
        assert [first, *(token.id for token in reply)] == alone
        assert opening.passes, "a reply that began before drafts, too"


def test_a_draft_model_that_does_not_open_is_one_warning(draft_files: tuple[Path, Path], opening: Opening) -> None:
    opening.error = NoMemoryError(f"{draft_files[1]}: no memory for this")
    with Model.open(draft_files[0]) as model:
        alone = text_of(model)
    with warnings.catch_warnings(record=True) as said, Model.open(draft_files[0], draft=str(draft_files[1])) as model:
        warnings.simplefilter("always")
        opening.go.set()
        until(lambda: said)
        assert text_of(model) == alone
    assert [str(each.message) for each in said] == [
        f"the draft model {draft_files[1]} cannot be used: no memory for this; replies go on without its drafts"
    ]


def test_closing_ends_the_compilation_of_kernels(
    draft_files: tuple[Path, Path], opening: Opening, recwarn: pytest.WarningsRecorder
) -> None:
    model = Model.open(draft_files[0], draft=str(draft_files[1]))
    assert opening.begun.wait(60)
    closing = Thread(target=model.close)
    closing.start()
    loaded = model._draft._loaded
    until(lambda: loaded is None or loaded._closing)
    opening.compiles = True
    opening.go.set()
    closing.join(60)
    assert not closing.is_alive()
    assert opening.compiles, "it was ended within"
    assert not opening.engines and not recwarn.list


def test_closing_waits_for_the_opening(draft_files: tuple[Path, Path], opening: Opening) -> None:
    model = Model.open(draft_files[0], draft=str(draft_files[1]))
    assert opening.begun.wait(60)
    opening.go.set()
    model.close()
    model.close()
    (engine,) = opening.engines
    with pytest.raises(EdgeLLMError, match="closed"):
        engine.compute([])


def test_a_close_that_was_interrupted_ends_when_it_is_called_again(
    draft_files: tuple[Path, Path], opening: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Model.open(draft_files[0], draft=str(draft_files[1]))
    opening.go.set()
    until(lambda: model.drafts_with)

    def interrupted(loaded: draft_model.DraftModel) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(draft_model.DraftModel, "wait", interrupted)
        model.close()
    model.close()
    (engine,) = opening.engines
    with pytest.raises(EdgeLLMError, match="closed"):
        engine.compute([])
    assert not any(str(path) in Path("/proc/self/maps").read_text() for path in draft_files)


def test_a_model_that_is_forgotten_frees_its_draft_model(draft_files: tuple[Path, Path], opening: Opening) -> None:
    opening.go.set()
    models = [Model.open(draft_files[0], draft=str(draft_files[1]))]
    until(lambda: models[0].drafts_with)
    text_of(models[0])
    engine = ref(opening.engines.pop())
    models.clear()
    gc.collect()
    assert engine() is None


def test_a_limit_of_memory_is_for_both(draft_files: tuple[Path, Path], opening: Opening) -> None:
    opening.go.set()
    limit = 2 * PAGE * 7 * CELL + 7  # two pages of both models
    with Model.open(draft_files[0], draft=str(draft_files[1]), kv_memory=limit / 1e9) as model:
        until(lambda: model.drafts_with)
        assert len(text_of(model)) == 60
        stats = model.kv_stats, opening.engines[0].kv_stats()
        assert [each.budget_bytes for each in stats] == pytest.approx([2 * PAGE * n * CELL for n in (6, 1)], abs=7)
        assert all(0 < each.bytes <= each.budget_bytes for each in stats)
        with pytest.raises(NoMemoryError, match=r"\(--kv-memory\)"):
            text_of(model, max_tokens=200)


def test_close_unmaps_both_files(draft_files: tuple[Path, Path]) -> None:
    model = Model.open(draft_files[0], draft=str(draft_files[1]))
    assert model.drafts().source and len(text_of(model)) == 60
    maps = Path("/proc/self/maps")
    assert all(str(path) in maps.read_text() for path in draft_files)
    model.close()
    assert not any(str(path) in maps.read_text() for path in draft_files)


def test_a_draft_model_without_memory_is_refused_at_once(
    draft_files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(draft_file, "available_memory", lambda: draft_files[0].stat().st_size)
    before = set(running_threads())
    with pytest.raises(NoMemoryError, match=r"no memory for the draft model .*draft\.gguf"):
        Model.open(draft_files[0], draft=str(draft_files[1]), threads=3)
    assert set(running_threads()) <= before, "the threads of the model have ended, too"


def test_auto_goes_on_where_memory_was_taken_meanwhile(
    draft_files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auto_draft, "find_draft", lambda target: draft_file.DraftFile.open(draft_files[1], target))
    monkeypatch.setattr(draft_file, "available_memory", lambda: 0)
    with pytest.warns(EdgeLLMWarning, match="no memory for the draft model"):
        model = Model.open(draft_files[0], draft="auto")
    with model:
        assert len(text_of(model)) == 60
        assert model.drafts_with is None
