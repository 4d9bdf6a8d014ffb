"""Drafts of a head for multi-token prediction: the same text to the bit, in fewer steps where the head is right."""

import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from edgellm import EdgeLLMError, EdgeLLMWarning, Model
from edgellm.engine.head_engine import HeadEngine
from edgellm.engine.host_kv_pages import HostKVPages
from edgellm.errors import NoMemoryError
from edgellm.generate.batching.cancel_flag import CancelFlag
from edgellm.generate.batching.computation import Computation
from edgellm.generate.request import TokensPrompt
from edgellm.generate.speculative_decoder import SpeculativeDecoder
from edgellm.speculation.computed_source import ComputedSource
from edgellm.speculation.draft_file import DraftFile
from edgellm.speculation.prompt_lookup import PromptLookup
from support.drafts import AllDrafts, HalfOfDrafts
from support.gguf_parts import GGUFParts
from support.heads import with_certain_head, with_random_head
from support.model_file import FamilyFile

MakeFile = Callable[[str], Path]
KINDS = {"attention": "glm4_5_air", "recurrent": "qwen3_5"}


@pytest.fixture(autouse=True)
def all_drafts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgellm.generate.speculative_decoder.DraftPolicy", AllDrafts)


@pytest.fixture(scope="module", params=KINDS)
def case(request: pytest.FixtureRequest) -> str:
    return KINDS[request.param]


@pytest.fixture(scope="module")
def random_head(case: str, family_file: FamilyFile, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Model]:
    path = with_random_head(family_file(case), tmp_path_factory.mktemp("heads") / "random.gguf")
    with Model.open(path, threads=2, draft="auto") as model:
        yield model


def source_of(model: Model) -> ComputedSource:
    source = model._generator.session.drafts.source
    assert source
    return source


def written(model: Model, prompt: str, **options: Any) -> list[Any]:
    """Ids and log-probabilities of a reply, with the most likely tokens."""
    return [(token.id, token.logprob, token.top_logprobs) for token in model.stream(prompt, logprobs=3, **options)]


def plainly(model: Model, prompt: str, **options: Any) -> list[Any]:
    """The same without drafts."""
    drafts, source = model._generator.session.drafts, source_of(model)
    drafts.source = None
    try:
        return written(model, prompt, **options)
    finally:
        drafts.source = source


@contextmanager
def counted(model: Model) -> Iterator[list[int]]:
    """The segments of each pass of the head of a model."""
    engine, passes = source_of(model).engine, list[int]()
    compute = engine.compute

    def recorded(segments: Any) -> Any:
        passes.append(len(segments))
        return compute(segments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "compute", recorded)
        yield passes


@pytest.mark.parametrize(("temp", "policy"), [(0.0, HalfOfDrafts), (0.8, AllDrafts), (1.5, HalfOfDrafts)])
def test_the_text_is_the_same_to_the_bit(
    random_head: Model, temp: float, policy: type[AllDrafts], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgellm.generate.speculative_decoder.DraftPolicy", policy)
    for seed, prompt in enumerate(["in", "the time was and the time was"]):
        options: dict[str, Any] = {"temp": temp, "seed": seed, "max_tokens": 70, "repeat_penalty": 1.1}
        with counted(random_head) as passes:
            found = written(random_head, prompt, **options)
        assert found == plainly(random_head, prompt, **options)
        assert len(passes) > len(found) / 2
    assert source_of(random_head).works


def test_a_reply_that_was_cancelled_leaves_nothing_behind(random_head: Model) -> None:
    options: dict[str, Any] = {"temp": 0.8, "seed": 4, "max_tokens": 60}
    plain = plainly(random_head, "the time", **options)
    for tokens in (1, 7, 30):
        reply = random_head.stream("the time", **options)
        for _ in range(tokens):
            next(reply, None)
        reply.cancel()
        reply.close()
        assert written(random_head, "the time", **options) == plain


REQUESTS: list[tuple[str, dict[str, Any]]] = [
    ("in", {"temp": 0.0, "max_tokens": 60}),
    ("the time was " * 9, {"temp": 0.8, "seed": 1, "max_tokens": 40}),
    ("aa bb aa", {"temp": 1.5, "seed": 2, "max_tokens": 30}),
    ("of a", {"temp": 0.8, "seed": 3, "max_tokens": 40, "regex": "(ab|cd|[x-z]){3,30}", "partial": True}),
]


@pytest.mark.parametrize("number", range(len(REQUESTS)))
def test_each_of_some_replies_is_the_same(random_head: Model, number: int) -> None:
    prompt, options = REQUESTS[number]
    assert written(random_head, prompt, **options) == plainly(random_head, prompt, **options)


def test_several_replies_share_the_passes_of_a_head(random_head: Model) -> None:
    alone = [plainly(random_head, prompt, **options) for prompt, options in REQUESTS]
    with counted(random_head) as passes:
        for _ in range(3):
            with ThreadPoolExecutor(len(REQUESTS)) as pool:
                together = list(pool.map(lambda each: written(random_head, each[0], **each[1]), REQUESTS))
            assert together == alone
    assert max(passes) > 1
    assert source_of(random_head).works


def test_a_reply_goes_on_after_a_context_shift(random_head: Model) -> None:
    ids = random_head.tokenizer.encode("the time was " * 400, add_special=True)[: random_head.ctx - 30]

    def shift(written: list[int]) -> TokensPrompt:
        before_shift.append(len(passes))
        return TokensPrompt([*ids[:8], *written[-300:]], context_shift=shift)

    def shifted() -> list[int]:
        generator = random_head._generator
        options = generator.options(max_tokens=70, seed=2, temp=0.8, logit_bias={0: -100.0, 2: -100.0})
        prompt = TokensPrompt(ids, context_shift=shift)
        generation = generator.start(prompt, options, generator.start_timer(), random_head._prefix_cache)
        return [token.id for token in generation]

    drafts, source, before_shift = random_head._generator.session.drafts, source_of(random_head), list[int]()
    with counted(random_head) as passes:
        found = shifted()
    (before,) = before_shift
    assert before > 10 and len(passes) - before > 20, "the head drafts again"
    drafts.source = None
    assert shifted() == found
    drafts.source = source
    assert len(found) == 70 and source.works


@pytest.mark.parametrize("after", [0, 1, 7])
def test_without_memory_for_the_head_a_reply_goes_on(
    random_head: Model, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {"temp": 0.8, "seed": 1, "max_tokens": 40}
    plain, engine = plainly(random_head, "in", **options), source_of(random_head).engine
    compute, passes = engine.compute, count()

    def failing(segments: Any) -> Any:
        if next(passes) >= after:
            raise NoMemoryError("full")
        return compute(segments)

    with monkeypatch.context() as patch:
        patch.setattr(engine, "compute", failing)
        assert written(random_head, "in", **options) == plain
    assert next(passes) > after
    assert source_of(random_head).works
    with counted(random_head) as later:
        assert written(random_head, "in", **options) == plain
    assert len(later) > 10, "the next reply has its drafts again"


def test_a_reply_whose_model_is_closed_before_its_head_drafts_says_so(family_file: FamilyFile, tmp_path: Path) -> None:
    model = Model.open(with_random_head(family_file("glm4_5_air"), tmp_path / "random.gguf"), threads=1, draft="auto")
    session = model._generator.session
    cancel = CancelFlag(session.engine)
    with SpeculativeDecoder(session, session.engine.new_sequence(), PromptLookup([]), cancel) as decoder:
        model.close()
        with pytest.raises(EdgeLLMError, match="was closed"):
            decoder.begin_drafting()


@pytest.mark.parametrize("is_right", [True, False])
def test_a_head_that_is_right_saves_steps(case: str, family_file: FamilyFile, tmp_path: Path, is_right: bool) -> None:
    path = with_certain_head(family_file(case), tmp_path / "certain.gguf", is_right)
    with Model.open(path, threads=1, draft="auto") as model:
        stats = model.generate([7], temp=0, max_tokens=60, logit_bias={0: -100.0, 2: -100.0}).stats
        found = stats.drafts["mtp"]
    assert found.drafted >= 30
    assert found.accepted >= 0.9 * found.drafted if is_right else not found.accepted


def test_a_file_with_a_broken_head_runs_without_it(family_file: FamilyFile, tmp_path: Path) -> None:
    parts, path = GGUFParts.read(family_file("glm4_5_air")), tmp_path / "broken.gguf"
    kept = {name: each for name, each in parts.tensors.items() if not name.endswith("nextn.enorm.weight")}
    path.write_bytes(replace(parts, tensors=kept).build())
    why = r"multi-token prediction cannot draft.*has no tensor .*enorm"
    with pytest.warns(EdgeLLMWarning, match="no model on this machine"), pytest.warns(EdgeLLMWarning, match=why):
        model = Model.open(path, threads=1, draft="auto")
    with model:
        assert model.generate("in", max_tokens=3).text is not None
    with warnings.catch_warnings():
        warnings.simplefilter("error", EdgeLLMWarning)
        Model.open(path, threads=1).close()


def test_replies_that_are_preempted_are_the_same(random_head: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the target has no more pages for all, a reply leaves the memory of its head, too."""
    options: dict[str, Any] = {"max_tokens": 60, "seed": 1, "temp": 0.8, "logit_bias": {0: -100.0, 2: -100.0}}
    prompts = [letter * 70 for letter in "ABCDEF"]
    alone = [plainly(random_head, prompt, **options) for prompt in prompts]
    preempt, preempted, ensure = Computation.preempt, list[int](), HostKVPages.ensure_pages

    def recorded(computation: Computation) -> None:
        preempted.append(len(passes))
        preempt(computation)

    def limited(store: HostKVPages, group: int, pages: int) -> None:
        if store is small.engine._runner.cpu.pages and group == 0 and pages > 7:  # type: ignore[attr-defined]
            raise NoMemoryError("full")
        ensure(store, group, pages)

    monkeypatch.setattr(Computation, "preempt", recorded)
    monkeypatch.setattr("edgellm.engine.host_kv_pages.CHUNK", 0)
    monkeypatch.setattr("edgellm.engine.host_kv_pages.HUGE", 0)
    monkeypatch.setattr(HostKVPages, "ensure_pages", limited)
    with Model.open(random_head.file.path, threads=1, draft="auto") as small, counted(small) as passes:
        with ThreadPoolExecutor(6) as pool:
            assert list(pool.map(lambda prompt: written(small, prompt, **options), prompts)) == alone
        assert source_of(small).works
    assert preempted
    assert len(passes) - preempted[0] > 60, "the head drafts again"


def test_a_limit_of_memory_is_for_both(random_head: Model) -> None:
    limit = 4_000_000
    with Model.open(random_head.file.path, threads=1, draft="auto", kv_memory=limit / 1e9) as model:
        written(model, "the time", max_tokens=60)
        head = source_of(model).engine
        assert isinstance(head, HeadEngine)
        assert 0 < head.kv_bytes <= limit - model.kv_stats.bytes


@pytest.mark.gpu
def test_with_layers_on_a_gpu_auto_looks_for_a_draft_model(
    family_file: FamilyFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    from support.gpus import adapter

    adapter()
    path = family_file("glm4_5_air")
    monkeypatch.setattr("edgellm.speculation.auto_draft.find_draft", lambda target: DraftFile.open(path, target))
    with pytest.warns(EdgeLLMWarning, match="multi-token prediction of .*: a head drafts only where the CPU"):
        model = Model.open(path, draft="auto", gpu_layers="all", gpu="0", threads=1)
    with model:
        assert len(model.engine.devices) == 2
        drafts = model.drafts()
        assert drafts.are_asked_for and drafts.source
        assert drafts.source.name == str(path), "a model may draft for itself"
