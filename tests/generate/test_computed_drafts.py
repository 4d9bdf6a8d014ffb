"""Drafts that a draft model computes: the same text to the bit, in fewer steps, and no state left behind."""

import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from edgellm import EdgeLLMError, Model
from edgellm.engine.host_kv_pages import HostKVPages
from edgellm.engine.kv_pages import PagePool
from edgellm.engine.native_engine import NativeEngine
from edgellm.engine.protocol import Stopped
from edgellm.errors import NoMemoryError
from edgellm.generate.batching.computation import Computation
from edgellm.generate.request import TokensPrompt
from edgellm.gguf import GGUFFile
from edgellm.speculation.computed_source import ComputedSource
from edgellm.speculation.drafting import Drafting
from edgellm.speculation.model_drafter import ModelDrafter
from edgellm.system.folders import cache_folder
from support.draft_models import damped, first_layers
from support.drafts import AllDrafts, HalfOfDrafts, WindowedDrafts, same_tokens
from support.generation import NO_END, RECURRENT, TINY
from support.gguf_parts import GGUFParts
from support.model_file import ModelFile

KINDS: dict[str, dict[str, Any]] = {
    "attention": {**TINY, "layers": 3},
    "recurrent": {**RECURRENT, "layers": 4},
    "windowed": {**TINY, "layers": 3, "metadata": (("attention.sliding_window", 40),)},
}


def draft_engine(path: Path, cache: Path, ctx: int | None) -> NativeEngine:
    return NativeEngine(GGUFFile.open(path), threads=1, ctx=ctx, kv_type="f16", cache=cache)


@contextmanager
def drafting(model: Model, path: Path, cache: Path, ctx: int | None = None) -> Iterator[ComputedSource]:
    """In this context the replies of a model have drafts of another one."""
    engine, tokens = draft_engine(path, cache, ctx), same_tokens(model.engine.vocab)
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


@pytest.mark.parametrize(("temp", "policy"), [(0.0, HalfOfDrafts), (0.8, AllDrafts), (1.5, HalfOfDrafts)])
def test_the_text_is_the_same_to_the_bit(
    model: Model, draft: Path, cache: Path, temp: float, policy: type[AllDrafts], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgellm.generate.speculation.DraftPolicy", policy)
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


FORMS: list[dict[str, Any]] = [
    {"regex": "([a-d]|xyz){20,90}"},
    {"json_schema": {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}}},
]


@pytest.mark.parametrize("form", FORMS, ids=["regex", "json"])
@pytest.mark.parametrize("temp", [0.0, 0.8])
def test_guided_replies_are_the_same(model: Model, draft: Path, cache: Path, form: dict[str, Any], temp: float) -> None:
    options = {"temp": temp, "seed": 3, "max_tokens": 60, "partial": True, **form}
    plain = written(model, "the time was", **options)
    with drafting(model, draft, cache) as source, counted(source.engine, "compute") as passes:
        assert written(model, "the time was", **options) == plain
        assert passes and source.works


def test_forms_are_known_to_drafters(model: Model, draft: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that is drafted conforms, as the mask of the guide is that of the drafter."""
    drafted, keep = list[list[int]](), Drafting.prepare
    monkeypatch.setattr(
        Drafting, "prepare", lambda self, *given: (drafted.append(self.draft.tokens), keep(self, *given))[1]
    )
    with drafting(model, draft, cache):
        model.generate("the time was", regex="([a-d]|xyz){20,90}", max_tokens=60, partial=True, seed=1)
    found = [token for each in drafted for token in each]
    texts = [model.tokenizer.decode([token]) for token in found]
    assert len(found) > 20
    assert set("".join(texts)) <= set("abcdxyz")


def test_drafts_that_a_step_cuts_are_not_read_anew(
    model: Model, draft: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also behind text that a form forces, of which a pass computes several tokens."""
    monkeypatch.setattr("edgellm.generate.speculation.DraftPolicy", HalfOfDrafts)
    options: dict[str, Any] = {"regex": "((abcd|xyz)[0-9]){9,30}", "max_tokens": 120, "seed": 4, "partial": True}
    plain = written(model, "the time was " * 30, **options)
    with drafting(model, draft, cache) as source, counted(source.engine, "compute") as passes:
        assert written(model, "the time was " * 30, **options) == plain
    assert passes[0][0] > 150
    assert len(passes) > 20
    assert max(map(sum, passes[1:])) < 30


def requests(count: int) -> list[tuple[str, dict[str, Any]]]:
    prompts = ["in", "the time was " * 9, "aa bb aa bb aa", "of a"]
    temps = 0.0, 0.8, 1.5
    forms: list[dict[str, Any]] = [
        {"logit_bias": NO_END},
        {"logit_bias": NO_END},
        {"regex": "(ab|cd){3,30}", "partial": True},
    ]
    return [
        (prompts[i % 4], {"temp": temps[i % 3], "seed": i, "max_tokens": 20 + 7 * i, **forms[i % 3]})
        for i in range(count)
    ]


def test_replies_at_once_are_the_same(model: Model, draft: Path, cache: Path) -> None:
    given = requests(8)
    alone = [written(model, prompt, **options) for prompt, options in given]
    with drafting(model, draft, cache) as source, counted(source.engine, "compute") as passes:
        with ThreadPoolExecutor(8) as pool:
            together = list(pool.map(lambda each: written(model, each[0], **each[1]), given))
        assert source.works
    assert together == alone
    assert max(map(len, passes)) > 1, "passes are shared"


def references(engine: NativeEngine) -> int:
    """The references to pages of the engine, once its prefix cache is evicted."""
    assert engine.kv_stats().used_pages == 0
    while engine.evict():
        pass
    pools: list[PagePool] = list(engine._runner.pools)
    if states := engine._runner.checkpoints.states:
        pools.append(states.pool)
    for each in pools:
        each.release(each.acquire())  # which first takes back what was dropped
    return sum(sum(each._references) for each in pools)


def test_replies_that_are_cancelled_change_no_other_and_leave_no_page(model: Model, draft: Path, cache: Path) -> None:
    given = requests(6)
    alone = [written(model, prompt, **options) for prompt, options in given]

    def cancelled(i: int) -> None:
        running = model.stream("the time was " * (i + 1), max_tokens=60, seed=i, logit_bias=NO_END)
        for _ in range(3 * i):
            next(running)
        running.cancel()

    with drafting(model, draft, cache) as source:
        with ThreadPoolExecutor(12) as pool:
            replies = [pool.submit(written, model, prompt, **options) for prompt, options in given]
            for each in [pool.submit(cancelled, i) for i in range(6)]:
                each.result(60)
            assert [each.result(60) for each in replies] == alone
        engine = source.engine
        assert isinstance(engine, NativeEngine)
        assert model.kv_stats, "its turn closes the drafters of replies that ended"
        assert references(engine) == 0


def test_a_reply_goes_on_after_a_context_shift(model: Model, draft: Path, cache: Path) -> None:
    ids = model.tokenizer.encode("the time was " * 200, add_special=True)[: model.ctx - 30]
    assert len(ids) == model.ctx - 30

    def shifted(passes: list[list[int]]) -> tuple[list[int], int]:
        """The reply, and how many passes there were before the shift."""
        before = list[int]()

        def shift(written: list[int]) -> TokensPrompt:
            before.append(len(passes))
            return TokensPrompt([*ids[:8], *written[-500:]], context_shift=shift)

        generator = model._generator
        options = generator.options(max_tokens=120, seed=2, logit_bias=NO_END)
        prompt = TokensPrompt(ids, context_shift=shift)
        generation = generator.start(prompt, options, generator.start_timer(), model._prefix_cache)
        found = [token.id for token in generation]
        (passes_before,) = before
        return found, passes_before

    plain, _ = shifted([])
    assert len(plain) == 120
    with drafting(model, draft, cache) as source, counted(source.engine, "compute") as passes:
        found, before = shifted(passes)
    assert found == plain
    assert before > 10
    assert len(passes) - before > 20, "it drafts again"


def test_the_next_reply_continues_from_both_states(
    model: Model, draft: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And reads little again, as the prefix caches of both models have what was accepted.

    A recurrent state goes back to the end of a reply alone: of other branches only the last tokens are read.
    """
    ids = model.tokenizer.encode("the time was " * 30, add_special=True)
    options: dict[str, Any] = {"max_tokens": 50, "seed": 1, "logit_bias": NO_END}
    first = [each.id for each in model.stream(ids, **options)]
    branches = [[*ids, *first[:n], 100, 101] for n in (50, 20, 35)]
    plain = [written(model, branch, **options) for branch in branches]  # type: ignore[arg-type]
    with drafting(model, draft, cache) as source:
        assert [each.id for each in model.stream(ids, **options)] == first
        assert isinstance(source.engine, NativeEngine)
        monkeypatch.setattr("edgellm.generate.speculation.DraftPolicy", WindowedDrafts)
        for branch, expected in zip(branches, plain, strict=True):
            with counted(source.engine, "compute") as passes:
                assert written(model, branch, **options) == expected  # type: ignore[arg-type]
            is_next = branch == branches[0]
            assert max(map(sum, passes)) < (10 if is_next or not source.engine.new_sequence().needs_marks else 17)


def failing(engine: Any, error: Exception, after: int) -> Any:
    """An engine's `compute` that raises from some pass on."""
    compute, passes = engine.compute, iter(range(10**9))

    def failed(segments: Any) -> Any:
        if next(passes) >= after:
            raise error
        return compute(segments)

    return failed


@pytest.mark.parametrize("after", [0, 1, 7])
def test_an_error_of_the_drafter_is_one_warning(
    model: Model, draft: Path, cache: Path, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {"max_tokens": 40, "seed": 1, "logit_bias": NO_END}
    plain = written(model, "in", **options)
    with drafting(model, draft, cache) as source, warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        monkeypatch.setattr(source.engine, "compute", failing(source.engine, EdgeLLMError("it broke"), after))
        assert [written(model, "in", **options) for _ in range(2)] == [plain] * 2
        assert not source.works
    assert [str(each.message) for each in said] == ["d: it broke; replies go on without its drafts"]


def test_without_memory_for_drafts_a_reply_goes_on_without_and_the_next_one_tries_again(
    model: Model, draft: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {"max_tokens": 40, "seed": 1, "logit_bias": NO_END}
    plain = written(model, "in", **options)
    with drafting(model, draft, cache) as source:
        with monkeypatch.context() as patch:
            patch.setattr(source.engine, "compute", failing(source.engine, NoMemoryError("full"), 5))
            assert written(model, "in", **options) == plain
        assert source.works
        with counted(source.engine, "compute") as passes:
            assert written(model, "in", **options) == plain
        assert passes


def test_memory_that_comes_back_is_used_by_the_reply_that_had_none(
    model: Model, draft: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {"max_tokens": 150, "seed": 1, "logit_bias": NO_END}
    plain = written(model, "in", **options)
    with drafting(model, draft, cache) as source:
        compute, asked = source.engine.compute, list[int]()

        def short(segments: Any) -> Any:
            asked.append(len(segments[0].sequence) + len(segments[0].tokens))
            if len(asked) == 5:
                raise NoMemoryError("full")
            return compute(segments)

        monkeypatch.setattr(source.engine, "compute", short)
        assert written(model, "in", **options) == plain
        assert source.works
    assert len(asked) > 20
    assert 56 < asked[5] - asked[4] < 80, "it asks again after 64 tokens"


def test_a_drafter_with_a_smaller_context_goes_on_with_the_last_part_of_the_text(
    model: Model, draft: Path, cache: Path
) -> None:
    options: dict[str, Any] = {"max_tokens": 160, "seed": 1, "logit_bias": NO_END}
    plain = written(model, "in", **options)
    with drafting(model, draft, cache, ctx=40) as source, counted(source.engine, "compute") as passes:
        assert written(model, "in", **options) == plain
        assert source.works
    anew = [rows for (rows,) in passes if rows > 16]
    assert len(anew) >= 4
    assert max(anew) == 20, "the last half of its context"
    assert len(passes) > 60


def test_replies_that_are_preempted_are_the_same(
    model: Model, draft: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the target has no more pages for all, a reply leaves the memory of its drafter, too."""
    options: dict[str, Any] = {"max_tokens": 90, "seed": 1, "temp": 0.8, "logit_bias": NO_END}
    prompts = [letter * 70 for letter in "ABCDEF"]
    alone = [written(model, prompt, **options) for prompt in prompts]
    preempt, preempted, ensure = Computation.preempt, list[int](), HostKVPages.ensure_pages

    def recorded(computation: Computation) -> None:
        preempted.append(len(computation.sequence))
        preempt(computation)

    def limited(store: HostKVPages, group: int, pages: int) -> None:
        if store is small.engine._runner.cpu.pages and group == 0 and pages > 7:  # type: ignore[attr-defined]
            raise NoMemoryError("full")
        ensure(store, group, pages)

    monkeypatch.setattr(Computation, "preempt", recorded)
    monkeypatch.setattr("edgellm.engine.host_kv_pages.CHUNK", 0)
    monkeypatch.setattr("edgellm.engine.host_kv_pages.HUGE", 0)
    monkeypatch.setattr(HostKVPages, "ensure_pages", limited)
    with Model.open(model.file.path, threads=1) as small, drafting(small, draft, cache) as source:
        with ThreadPoolExecutor(6) as pool:
            assert list(pool.map(lambda prompt: written(small, prompt, **options), prompts)) == alone
        assert source.works
        assert isinstance(source.engine, NativeEngine)
        assert small.kv_stats, "its turn closes the drafters of replies that ended"
        assert references(source.engine) == 0
    assert preempted


def test_a_cancel_amid_a_round_ends_it(model: Model, draft: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cancel stops the threads that both engines share; here the drafter says that they were stopped."""
    options: dict[str, Any] = {"max_tokens": 40, "seed": 1, "logit_bias": NO_END}
    plain = written(model, "in", **options)
    with drafting(model, draft, cache) as source:
        compute, passes = source.engine.compute, iter(range(10**9))
        running = model.stream("in", **options)

        def stopped(segments: Any) -> Any:
            if next(passes) == 11:
                running.cancel()
                raise Stopped
            return compute(segments)

        with monkeypatch.context() as patch:
            patch.setattr(source.engine, "compute", stopped)
            given = [token.id for token in running]
        assert given == [each[0] for each in plain[: len(given)]]
        assert 0 < len(given) < 40
        assert written(model, "in", **options) == plain
        assert source.works
