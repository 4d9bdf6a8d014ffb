"""A model with a draft model: loaded in the background, the same text, and what happens if it cannot be used."""

import gc
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from threading import enumerate as running_threads
from typing import Any
from weakref import ref

import pytest

from edgellm import Model
from edgellm.arch import describe
from edgellm.engine.native_engine import NativeEngine
from edgellm.errors import EdgeLLMError, EdgeLLMWarning, NoMemoryError, OptionError, UnsupportedModelError
from edgellm.gguf import GGUFFile
from edgellm.options import MAX_DRAFT
from edgellm.perf.mbu import MBUEstimator
from edgellm.speculation import auto_draft, draft_file, draft_model
from edgellm.speculation.rules import Rejection
from kquants.kv_layout import PAGE
from support.draft_models import damped, first_layers
from support.drafts import AllDrafts
from support.gguf_parts import GGUFParts
from support.guided_models import SCHEMA
from support.model_file import ModelFile

SIZES: dict[str, Any] = {"width": 128, "layers": 6, "heads": 4, "kv_heads": 2, "head_dim": 32, "ffn": 256}
CELL = 2 * 2 * 32 * 2
"""Bytes of the keys and values of a token in one layer."""

REPLY: dict[str, Any] = {"max_tokens": 60, "seed": 7, "temp": 0.8, "logit_bias": {2: -float("inf")}}
PROMPT = "the time was"


@pytest.fixture(scope="module")
def files(model_file: ModelFile, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A target, and a draft model that guesses about all of its tokens."""
    folder, parts = tmp_path_factory.mktemp("drafts"), GGUFParts.read(model_file(**SIZES, types="F32"))
    target, draft = folder / "target.gguf", folder / "draft.gguf"
    target.write_bytes(damped(parts, 1, 8).build())
    draft.write_bytes(first_layers(parts, 1).build())
    return target, draft


class Opening:
    """The engines that draft models open: they wait for `go`, and are counted."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.go, self.begun, self.engines = Event(), Event(), list[NativeEngine]()
        self.passes = 0
        self.error: Exception | None = None
        self.compiles = False
        patch.setattr(draft_model, "NativeEngine", self._open)

    def _open(self, file: GGUFFile, **options: Any) -> NativeEngine:
        self.begun.set()
        assert self.go.wait(60)
        if self.error:
            raise self.error
        if self.compiles:
            options["progress"](1, 2)
            self.compiles = False
        engine = NativeEngine(file, **options)
        compute = engine.compute

        def counted(segments: Any) -> Any:
            self.passes += 1
            return compute(segments)

        engine.compute = counted  # type: ignore[method-assign]
        self.engines.append(engine)
        return engine


@pytest.fixture
def opening(monkeypatch: pytest.MonkeyPatch) -> Iterator[Opening]:
    found = Opening(monkeypatch)
    yield found
    found.go.set()


def until(done: Callable[[], object]) -> None:
    end = time.monotonic() + 60
    while not done():
        assert time.monotonic() < end
        time.sleep(0.002)


@contextmanager
def counted_steps(model: Model) -> Iterator[list[int]]:
    """The rows of each batch of the target."""
    forward, rows = model.engine.forward, list[int]()

    def counted(parts: Any) -> Any:
        rows.append(len(parts[0].tokens))
        return forward(parts)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model.engine, "forward", counted)
        yield rows


def text_of(model: Model, **options: Any) -> list[int]:
    return [token.id for token in model.stream(PROMPT, **{**REPLY, **options})]


def test_the_text_is_the_same_and_the_target_computes_fewer_steps(
    files: tuple[Path, Path], opening: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgellm.generate.speculative_decoder.DraftPolicy", AllDrafts)
    target, draft = files
    opening.go.set()
    with Model.open(target, draft="off") as model:
        alone = [text_of(model, temp=temp) for temp in (0, 0.8, 1.5)]
    with Model.open(target, draft=draft) as model, counted_steps(model) as steps:
        until(lambda: model.drafts_with)
        assert [text_of(model, temp=temp) for temp in (0, 0.8, 1.5)] == alone
        assert opening.passes
        assert len(steps) < 60, "a step in three is left, or fewer"
        assert model.generate(PROMPT, **REPLY).stats.drafts["model"].accepted > 30
        assert model.drafts_with == str(draft)


def test_what_the_draft_model_reads_counts_as_used_bandwidth(
    files: tuple[Path, Path], opening: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a bandwidth of a byte per second, and a target whose bytes are left out."""
    monkeypatch.setattr(MBUEstimator, "mbu", lambda estimator, tps, depth, draft_bytes: draft_bytes)
    opening.go.set()
    with Model.open(files[0], draft=files[1]) as model:
        until(lambda: model.drafts_with)
        stats = model.generate(PROMPT, **REPLY).stats
    with GGUFFile.open(files[1]) as file:
        a_pass = draft_file.active_bytes(describe(file))
    assert stats.mbu and stats.decode_tps
    assert stats.mbu * 59 / stats.decode_tps == pytest.approx(opening.passes * a_pass)


@pytest.mark.parametrize(("options", "most"), [({}, 7), ({"draft_max": 2}, 2), ({"draft": "off"}, 0)])
def test_the_most_drafts_of_a_step(
    files: tuple[Path, Path], options: dict[str, Any], most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgellm.generate.speculative_decoder.DraftPolicy", AllDrafts)
    with Model.open(files[0], **{"draft": files[1], **options}) as model, counted_steps(model) as rows:
        if most:
            until(lambda: model.drafts_with)
        prompt = model.tokenizer.encode("the time was " * 9)
        assert list(model.stream(prompt, **REPLY, repeat_penalty=0.9))
    assert rows.pop(0) == len(prompt)
    assert max(rows) == most + 1


def test_text_that_a_form_forces_behind_drafts_takes_no_more_rows(
    files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Drafts beyond the limit would need states and pages that are not there."""
    monkeypatch.setattr("edgellm.generate.speculative_decoder.DraftPolicy", AllDrafts)
    steps = list[tuple[int, int]]()
    with Model.open(files[0], draft=files[1]) as model:
        assert model.drafts().source
        forward = model.engine.forward

        def recorded(parts: Any) -> Any:
            steps.extend((len(each.sequence), len(each.tokens)) for each in parts if each.drafts)
            return forward(parts)

        monkeypatch.setattr(model.engine, "forward", recorded)
        schema = {"type": "array", "items": SCHEMA, "minItems": 3, "maxItems": 3}
        stats = model.generate(PROMPT, json_schema=schema, **REPLY | {"max_tokens": 300}, partial=True).stats
    assert stats.drafts["model"].drafted > 20
    assert max(rows for _, rows in steps) == 1 + MAX_DRAFT
    assert all(start % PAGE + rows <= PAGE for start, rows in steps)


def test_rejection_judges_what_the_draft_model_drew(
    files: tuple[Path, Path], opening: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged, choose = list[bool](), Rejection.choose

    def counted(rule: Rejection, p: Any, proposal: Any, key: Any, position: int) -> int:
        token = choose(rule, p, proposal, key, position)
        judged.extend([token == proposal.token] if proposal and proposal.q else [])
        return token

    monkeypatch.setattr(Rejection, "choose", counted)
    opening.go.set()
    with Model.open(files[0], draft=files[1], draft_rule="rejection") as model:
        until(lambda: model.drafts_with)
        assert len(text_of(model)) == 60
    assert sum(judged) > len(judged) / 2 > 0


def test_replies_begin_before_the_draft_model_is_there_and_then_use_it(
    files: tuple[Path, Path], opening: Opening
) -> None:
    with Model.open(files[0]) as model:
        alone = text_of(model)
    with Model.open(files[0], draft=str(files[1])) as model:
        assert opening.begun.wait(60)
        assert text_of(model) == alone
        assert not opening.engines and model.drafts_with is None
        reply = model.stream(PROMPT, **REPLY)
        first = next(reply).id
        opening.go.set()
        until(lambda: model.drafts_with)
        assert [first, *(token.id for token in reply)] == alone
        assert opening.passes, "a reply that began before drafts, too"


def test_a_draft_model_that_does_not_open_is_one_warning(files: tuple[Path, Path], opening: Opening) -> None:
    opening.error = NoMemoryError("no memory for this")
    with Model.open(files[0]) as model:
        alone = text_of(model)
    with warnings.catch_warnings(record=True) as said, Model.open(files[0], draft=str(files[1])) as model:
        warnings.simplefilter("always")
        opening.go.set()
        until(lambda: said)
        assert text_of(model) == alone
    assert [str(each.message) for each in said] == [
        f"the draft model {files[1]} cannot be used: no memory for this; replies go on without its drafts"
    ]


def test_closing_ends_the_compilation_of_kernels(
    files: tuple[Path, Path], opening: Opening, recwarn: pytest.WarningsRecorder
) -> None:
    model = Model.open(files[0], draft=str(files[1]))
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


def test_closing_waits_for_the_opening(files: tuple[Path, Path], opening: Opening) -> None:
    model = Model.open(files[0], draft=str(files[1]))
    assert opening.begun.wait(60)
    opening.go.set()
    model.close()
    model.close()
    (engine,) = opening.engines
    with pytest.raises(EdgeLLMError, match="closed"):
        engine.compute([])


def test_a_close_that_was_interrupted_ends_when_it_is_called_again(
    files: tuple[Path, Path], opening: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Model.open(files[0], draft=str(files[1]))
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
    assert not any(str(path) in Path("/proc/self/maps").read_text() for path in files)


def test_a_model_that_is_forgotten_frees_its_draft_model(files: tuple[Path, Path], opening: Opening) -> None:
    opening.go.set()
    models = [Model.open(files[0], draft=str(files[1]))]
    until(lambda: models[0].drafts_with)
    text_of(models[0])
    engine = ref(opening.engines.pop())
    models.clear()
    gc.collect()
    assert engine() is None


def test_a_limit_of_memory_is_for_both(files: tuple[Path, Path], opening: Opening) -> None:
    opening.go.set()
    limit = 2 * PAGE * 7 * CELL + 7  # two pages of both models
    with Model.open(files[0], draft=str(files[1]), kv_memory=limit / 1e9) as model:
        until(lambda: model.drafts_with)
        assert len(text_of(model)) == 60
        stats = model.kv_stats, opening.engines[0].kv_stats()
        assert [each.budget_bytes for each in stats] == pytest.approx([2 * PAGE * n * CELL for n in (6, 1)], abs=7)
        assert all(0 < each.bytes <= each.budget_bytes for each in stats)
        with pytest.raises(NoMemoryError, match=r"\(--kv-memory\)"):
            text_of(model, max_tokens=200)


def test_close_unmaps_both_files(files: tuple[Path, Path]) -> None:
    model = Model.open(files[0], draft=str(files[1]))
    assert model.drafts().source and len(text_of(model)) == 60
    maps = Path("/proc/self/maps")
    assert all(str(path) in maps.read_text() for path in files)
    model.close()
    assert not any(str(path) in maps.read_text() for path in files)


def test_a_draft_model_without_memory_is_refused_at_once(
    files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(draft_file, "available_memory", lambda: files[0].stat().st_size)
    before = set(running_threads())
    with pytest.raises(NoMemoryError, match=r"no memory for the draft model .*draft\.gguf"):
        Model.open(files[0], draft=str(files[1]), threads=3)
    assert set(running_threads()) <= before, "the threads of the model have ended, too"


def test_auto_goes_on_where_memory_was_taken_meanwhile(
    files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auto_draft, "find_draft", lambda target: draft_file.DraftFile.open(files[1], target))
    monkeypatch.setattr(draft_file, "available_memory", lambda: 0)
    with pytest.warns(EdgeLLMWarning, match="no memory for the draft model"):
        model = Model.open(files[0], draft="auto")
    with model:
        assert len(text_of(model)) == 60
        assert model.drafts_with is None


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"draft": "none.gguf"}, EdgeLLMError, "none.gguf"),
        ({"draft": ""}, OptionError, "option draft cannot be ''"),
        ({"draft": "off", "draft_max": 3}, OptionError, "option draft_max is about drafts"),
        ({"draft": "off", "draft_rule": "rejection"}, OptionError, "option draft_rule is about drafts"),
        ({"draft_max": 8}, OptionError, "option draft_max cannot be 8: give a whole number, from 1 to 7"),
        ({"draft_rule": "best"}, OptionError, "give same or rejection"),
    ],
)
def test_options_that_cannot_be(
    files: tuple[Path, Path], options: dict[str, Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error) as caught:
        Model.open(files[0], **options)
    assert said in str(caught.value)


def test_a_larger_model_and_one_of_other_tokens_are_refused(files: tuple[Path, Path], model_file: ModelFile) -> None:
    with pytest.raises(UnsupportedModelError, match="too large for a draft model"):
        Model.open(files[1], draft=str(files[0]))
    with pytest.raises(UnsupportedModelError, match="writes text with other tokens"):
        Model.open(files[0], draft=str(model_file(**{**SIZES, "layers": 1, "types": "F32", "tokenizer": "gpt2"})))


def test_llama_cpp_has_no_draft_model(files: tuple[Path, Path]) -> None:
    with pytest.raises(EdgeLLMError, match=r"llama\.cpp has no draft model here; leave --draft out"):
        Model.open(files[0], draft=str(files[1]), engine="llama.cpp")
    for name, value in (("draft_max", 3), ("draft_rule", "rejection")):
        with pytest.raises(EdgeLLMError, match=rf"llama\.cpp drafts nothing here; leave option {name} out"):
            Model.open(files[0], engine="llama.cpp", **{name: value})


def test_auto_without_any_draft_model_warns_and_goes_on(files: tuple[Path, Path]) -> None:
    with pytest.warns(EdgeLLMWarning, match="no model on this machine can draft"):
        model = Model.open(files[1], draft="auto")
    with model:
        assert len(text_of(model)) == 60


@pytest.mark.gpu
def test_a_gpu_verifies_drafts_that_the_cpu_computes(
    files: tuple[Path, Path], opening: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    from support.gpus import adapter

    adapter()
    monkeypatch.setattr("edgellm.generate.speculative_decoder.DraftPolicy", AllDrafts)
    opening.go.set()
    on_gpu: dict[str, Any] = {"gpu_layers": "all", "gpu_strict": True, "gpu": "0", "threads": 2}
    with Model.open(files[0], **on_gpu) as model:
        alone = [text_of(model, temp=temp, max_tokens=16) for temp in (0, 0.8)]
    with Model.open(files[0], draft=files[1], **on_gpu) as model, counted_steps(model) as steps:
        assert len(model.engine.devices) == 2
        until(lambda: model.drafts_with)
        found = [text_of(model, temp=temp, max_tokens=16) for temp in (0, 0.8)]
    assert found == alone, "the same tokens, as these logits are far from each other"
    assert opening.passes
    assert len(steps) < 2 * 16, "one batch gave several tokens"
