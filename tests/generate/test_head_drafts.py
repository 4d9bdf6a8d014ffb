"""Drafts of a head for multi-token prediction: the same text to the bit, in fewer steps where the head is right."""

import gc
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import count
from pathlib import Path
from threading import enumerate as running_threads
from typing import Any

import pytest

from edgellm import EdgeLLMError, EdgeLLMWarning, Model
from edgellm.engine.failover import FailoverRunner
from edgellm.engine.head_engine import HeadEngine
from edgellm.engine.native_engine import NativeEngine
from edgellm.errors import NoMemoryError
from edgellm.generate.batching.cancel_flag import CancelFlag
from edgellm.generate.speculative_decoder import SpeculativeDecoder
from edgellm.speculation.computed_source import ComputedSource
from edgellm.speculation.draft_file import DraftFile
from edgellm.speculation.prompt_lookup import PromptLookup
from support.draft_pairs import counted, plainly, written
from support.drafts import AllDrafts, HalfOfDrafts
from support.few_pages import opened_with_few_pages
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


@pytest.mark.parametrize(("temp", "policy"), [(0.0, HalfOfDrafts), (0.8, AllDrafts), (1.5, HalfOfDrafts)])
def test_the_text_is_the_same_to_the_bit(
    random_head: Model, temp: float, policy: type[AllDrafts], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgellm.generate.speculative_decoder.DraftPolicy", policy)
    for seed, prompt in enumerate(["in", "the time was and the time was"]):
        options: dict[str, Any] = {"temp": temp, "seed": seed, "max_tokens": 70, "repeat_penalty": 1.1}
        with counted(random_head.engine.draft_head) as passes:
            found = written(random_head, prompt, **options)
        assert found == plainly(random_head, prompt, **options)
        assert len(passes) > len(found) / 2
    assert source_of(random_head).works


REQUESTS: list[tuple[str, dict[str, Any]]] = [
    ("in", {"temp": 0.0, "max_tokens": 60}),
    ("the time was " * 9, {"temp": 0.8, "seed": 1, "max_tokens": 40}),
    ("aa bb aa", {"temp": 1.5, "seed": 2, "max_tokens": 30}),
    ("of a", {"temp": 0.8, "seed": 3, "max_tokens": 40, "regex": "(ab|cd|[x-z]){3,30}", "partial": True}),
]


def test_several_replies_share_the_passes_of_a_head(random_head: Model) -> None:
    alone = [plainly(random_head, prompt, **options) for prompt, options in REQUESTS]
    with counted(random_head.engine.draft_head) as passes:
        for _ in range(3):
            with ThreadPoolExecutor(len(REQUESTS)) as pool:
                together = list(pool.map(lambda each: written(random_head, each[0], **each[1]), REQUESTS))
            assert together == alone
    assert max(map(len, passes)) > 1, "passes are shared"
    assert source_of(random_head).works


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
    with counted(random_head.engine.draft_head) as later:
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


def test_replies_that_are_preempted_are_the_same(random_head: Model) -> None:
    """Where the target has no more pages for all, a reply leaves the memory of its head, too."""
    options: dict[str, Any] = {"max_tokens": 60, "seed": 1, "temp": 0.8, "logit_bias": {0: -100.0, 2: -100.0}}
    prompts = [letter * 70 for letter in "ABCDEF"]
    alone = [plainly(random_head, prompt, **options) for prompt in prompts]
    with (
        opened_with_few_pages(random_head.file.path, 7, lambda: len(passes), draft="auto") as (small, preempted),
        counted(small.engine.draft_head) as passes,
        ThreadPoolExecutor(6) as pool,
    ):
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


def no_head(error: EdgeLLMError) -> Callable[..., HeadEngine]:
    def fail(*_: object, **__: object) -> HeadEngine:
        raise error

    return fail


FAULTS = {
    "no memory": (NoMemoryError("no memory for 3 GB"), "the head cannot draft: no memory for 3 GB"),
    "no kernels": (EdgeLLMError("no kernels"), "the head cannot draft: no kernels"),
    "a GPU": (None, "a head drafts only where the CPU computes all layers"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_where_a_head_does_not_draft_auto_looks_for_a_draft_model_with_its_share_of_the_memory(
    family_file: FamilyFile, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    """A model may draft for itself: half of the limit is for either. The head alone would have a fifth."""
    path, limit, (error, why) = family_file("glm4_5_air"), 4_000_000, FAULTS[fault]
    monkeypatch.setattr("edgellm.speculation.auto_draft.find_draft", lambda target: DraftFile.open(path, target))
    if error:
        monkeypatch.setattr("edgellm.engine.head_request.HeadEngine", no_head(error))
    else:
        open_gpu = FailoverRunner.open_gpu
        monkeypatch.setattr(FailoverRunner, "open_gpu", lambda runner, progress: open_gpu(runner, progress) or True)
    with pytest.warns(EdgeLLMWarning, match=f"multi-token prediction of .*: {why}"):
        model = Model.open(path, threads=1, draft="auto", kv_memory=limit / 1e9)
    with model:
        source = model.drafts().source
        assert source and source.name == str(path)
        assert isinstance(source.engine, NativeEngine)
        budgets = [engine.kv_stats().budget_bytes for engine in (model.engine, source.engine)]
        assert budgets == [limit // 2, limit // 2]
        assert written(model, "in", max_tokens=20)


def test_where_a_warning_is_an_error_a_head_that_is_left_out_leaves_nothing_open(
    family_file: FamilyFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = with_random_head(family_file("glm4_5_air"), tmp_path / "random.gguf")
    before = set(running_threads())
    with monkeypatch.context() as patch, warnings.catch_warnings():
        patch.setattr("edgellm.engine.head_request.HeadEngine", no_head(NoMemoryError("no memory for 3 GB")))
        warnings.simplefilter("error")
        with pytest.raises(EdgeLLMWarning, match="the head cannot draft: no memory for 3 GB"):
            Model.open(path, threads=2, draft="auto")
    gc.collect()  # the frames of the error
    assert set(running_threads()) <= before
    assert str(path) not in Path("/proc/self/maps").read_text()
    with Model.open(path, threads=2, draft="auto") as model:
        assert source_of(model).name == f"multi-token prediction of {path}"


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
