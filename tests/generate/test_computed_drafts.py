"""Drafts that a draft model computes: the same text to the bit, in fewer steps, and no state left behind."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgellm import Model
from edgellm.engine.native_engine import NativeEngine
from edgellm.gguf import GGUFFile
from edgellm.speculation.computed_source import ComputedSource
from edgellm.speculation.model_drafter import ModelDrafter
from edgellm.speculation.vocabularies import TokenMap
from edgellm.system.folders import cache_folder
from support.draft_models import damped, first_layers
from support.drafts import AllDrafts
from support.generation import NO_END, RECURRENT, TINY
from support.gguf_parts import GGUFParts
from support.model_file import ModelFile

KINDS: dict[str, dict[str, Any]] = {
    "attention": {**TINY, "layers": 3},
    "recurrent": {**RECURRENT, "layers": 4},
    "windowed": {**TINY, "layers": 3, "metadata": (("attention.sliding_window", 40),)},
}


def same_tokens(vocab: int) -> TokenMap:
    """The map of two equal vocabularies."""
    return TokenMap("same", np.arange(vocab, dtype=np.int32), range(vocab), 0, vocab)


def draft_engine(path: Path, cache: Path, **options: Any) -> NativeEngine:
    return NativeEngine(GGUFFile.open(path), threads=1, ctx=None, kv_type="f16", cache=cache, **options)


@contextmanager
def drafting(model: Model, path: Path, cache: Path) -> Iterator[ComputedSource]:
    """In this context the replies of a model have drafts of another one."""
    engine, tokens = draft_engine(path, cache), same_tokens(model.engine.vocab)
    drafts = model._generator.session.drafts
    drafts.source = ComputedSource("d", engine, lambda ids, sequence: ModelDrafter(engine, ids, tokens), 0.1)
    try:
        yield drafts.source
    finally:
        drafts.source = None
        engine.close()


@pytest.fixture(autouse=True)
def all_drafts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgellm.generate.speculation.DraftPolicy", AllDrafts)


@pytest.fixture(scope="module")
def cache() -> Path:
    return cache_folder()


@pytest.fixture(scope="module", params=KINDS)
def parts(model_file: ModelFile, request: pytest.FixtureRequest) -> GGUFParts:
    return GGUFParts.read(model_file(**KINDS[request.param], context_length=1024))


@pytest.fixture(scope="module")
def model(parts: GGUFParts, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Model]:
    """The target: layers behind the first two add an eighth of what they were made to."""
    path = tmp_path_factory.mktemp("target") / "target.gguf"
    path.write_bytes(damped(parts, 2, 3).build())
    with Model.open(path, threads=2) as model:
        yield model


@pytest.fixture(scope="module")
def draft(parts: GGUFParts, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("draft") / "draft.gguf"
    path.write_bytes(first_layers(parts, 2).build())
    return path


@contextmanager
def counted(engine: Any, method: str) -> Iterator[list[list[int]]]:
    """The rows of each segment that an engine computes."""
    compute, steps = getattr(engine, method), list[list[int]]()

    def recorded(segments: Any) -> Any:
        steps.append([len(each.tokens) for each in segments])
        return compute(segments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, method, recorded)
        yield steps


def written(model: Model, prompt: str, **options: Any) -> list[Any]:
    """Ids and log-probabilities of a reply, with the most likely tokens."""
    return [(token.id, token.logprob, token.top_logprobs) for token in model.stream(prompt, logprobs=3, **options)]


@pytest.mark.parametrize("temp", [0.0, 0.8, 1.5])
def test_the_text_is_the_same_to_the_bit(model: Model, draft: Path, cache: Path, temp: float) -> None:
    for seed, prompt in enumerate(["in", "the time was and the time was", "aa bb aa bb aa"]):
        options: dict[str, Any] = {"temp": temp, "seed": seed, "repeat_penalty": 1.1, "max_tokens": 100}
        options["logit_bias"] = NO_END
        plain = written(model, prompt, **options)
        with drafting(model, draft, cache) as source, counted(model.engine, "forward") as steps:
            with counted(source.engine, "compute") as passes:
                assert written(model, prompt, **options) == plain
            assert len(passes) > 20
            assert source.works
        assert len(steps) < 100, "many drafts were right"


def test_the_figures_of_a_reply_count_what_was_computed(model: Model, draft: Path, cache: Path) -> None:
    with drafting(model, draft, cache), counted(model.engine, "forward") as steps:
        stats = model.generate("the time", temp=0.8, seed=2, max_tokens=60, logit_bias=NO_END).stats
    rows = [count for (count,) in steps[1:]]
    assert (stats.drafted, stats.accepted) == (sum(rows) - len(rows), 59 - len(rows))
    assert stats.tokens_per_step == pytest.approx(59 / len(rows))
    assert stats.drafts["model"].drafted > stats.drafts["model"].accepted > 0 < stats.drafts["model"].seconds
