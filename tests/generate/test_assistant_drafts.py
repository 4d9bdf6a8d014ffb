"""Replies that an assistant of Gemma 4 drafts for: the same text as without it."""

import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from converters import convert
from edgellm import EdgeLLMWarning, Model
from edgellm.models.stores import StoredModel
from support.archs import ArchFixture
from support.draft_pairs import counted
from support.drafts import AllDrafts
from support.few_pages import opened_with_few_pages
from support.gemma_assistants import IDS, TARGETS, write_assistant, write_assistant_checkpoint

SETTINGS: dict[str, dict[str, Any]] = {
    "greedy": {"temp": 0},
    "sampled": {"temp": 0.8, "seed": 4},
    "hot": {"temp": 1.5, "top_k": 0, "top_p": 1, "seed": 5},
    "penalties": {"temp": 0.8, "repeat_penalty": 1.3, "seed": 6},
    "guide": {"temp": 0.8, "seed": 7, "regex": "[a-z ]{30}", "partial": True},
}
PROMPTS = [IDS[:5], IDS[:30], IDS[:20], IDS[30:47]]
"""Shorter and longer than the window; one begins with an earlier text."""

Text = list[tuple[int, float | None]]


@pytest.fixture(autouse=True)
def all_drafts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgellm.generate.speculative_decoder.DraftPolicy", AllDrafts)


@pytest.fixture(scope="module")
def target(shared: Path) -> Path:
    return ArchFixture.of(shared, "gemma4_e2b").gguf


@pytest.fixture(scope="module")
def assistant(target: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("assistant")
    convert(write_assistant_checkpoint(folder / "checkpoint"), folder / "assistant.gguf", "Q8_0", target=target)
    return folder / "assistant.gguf"


@pytest.fixture(scope="module")
def alone(target: Path) -> Iterator[Model]:
    with Model.open(target, draft="off", ctx=128, threads=1) as model:
        yield model


@pytest.fixture
def drafting(target: Path, assistant: Path) -> Iterator[Model]:
    with Model.open(target, draft=str(assistant), ctx=128, threads=2) as model:
        yield model


def text_of(model: Model, prompt: list[int], **options: Any) -> Text:
    given = {"max_tokens": 40, "logprobs": 1} | options
    return [(token.id, token.logprob) for token in model.stream(prompt, **given)]


def texts(model: Model) -> dict[str, Text]:
    """Those of all prompts with all settings."""
    return {
        f"{name} {i}": text_of(model, prompt, **settings)
        for i, prompt in enumerate(PROMPTS)
        for name, settings in SETTINGS.items()
    }


@pytest.mark.parametrize("kv_type", ["f16", "q8_0"])
def test_the_text_is_the_same_to_the_bit(kv_type: str, target: Path, assistant: Path) -> None:
    with Model.open(target, draft="off", ctx=128, threads=1, kv_type=kv_type) as model:
        expected = texts(model)
    for threads in (1, 3):
        with Model.open(target, draft=str(assistant), ctx=128, threads=threads, kv_type=kv_type) as model:
            with counted(model.engine.draft_head) as passes:
                assert texts(model) == expected
            assert len(passes) > 50
            assert model.drafts_with == str(assistant)


def test_replies_together_share_passes(alone: Model, drafting: Model) -> None:
    requests = [(prompt, settings) for prompt in PROMPTS for settings in SETTINGS.values()][::3]
    expected = [text_of(alone, prompt, **settings) for prompt, settings in requests]
    with counted(drafting.engine.draft_head) as passes, ThreadPoolExecutor(len(requests)) as pool:
        for _ in range(3):
            assert list(pool.map(lambda each: text_of(drafting, each[0], **each[1]), requests)) == expected
    assert max(map(len, passes)) > 1


def test_replies_that_are_preempted_are_the_same(alone: Model, target: Path, assistant: Path) -> None:
    """Where the target has no more pages for all, a reply leaves those that its assistant reads."""
    options: dict[str, Any] = {"max_tokens": 60, **SETTINGS["sampled"]}
    prompts = [[*IDS[i : i + 40], *IDS[i : i + 20]] for i in range(6)]
    expected = [text_of(alone, prompt, **options) for prompt in prompts]
    with (
        opened_with_few_pages(target, 7, draft=str(assistant), ctx=128) as (small, preempted),
        counted(small.engine.draft_head) as passes,
        ThreadPoolExecutor(6) as pool,
    ):
        assert list(pool.map(lambda prompt: text_of(small, prompt, **options), prompts)) == expected
    assert len(passes) > 10  # a step without memory ends the drafts of its reply for a page, so about all that it has
    assert preempted


def test_a_limit_of_memory_is_for_the_target_alone(target: Path, assistant: Path) -> None:
    with Model.open(target, draft="off", ctx=128, kv_memory=0.001) as model:
        whole = model.kv_stats.budget_bytes
    with Model.open(target, draft=str(assistant), ctx=128, kv_memory=0.001) as model:
        assert model.kv_stats.budget_bytes == whole
        assert text_of(model, IDS[:20], **SETTINGS["greedy"])


def test_auto_takes_no_file_of_a_head(target: Path, assistant: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with heads of EAGLE-3: which of them fits a model well is not known, so that it is named."""
    stored = [StoredModel([assistant.name], "here", assistant)]
    monkeypatch.setattr("edgellm.speculation.auto_draft.stored_models", lambda: stored)
    with pytest.warns(EdgeLLMWarning, match="no model on this machine can draft"):
        model = Model.open(target, draft="auto", ctx=128)
    with model:
        assert model.drafts_with is None


@pytest.mark.gpu
def test_with_layers_on_a_gpu_a_warning_says_that_it_does_not_draft(shared: Path, tmp_path: Path) -> None:
    from support.gpus import adapter

    adapter()
    name = "gemma4_moe"  # of whose layers a GPU computes all but the experts
    target, assistant = ArchFixture.of(shared, name).gguf, write_assistant(tmp_path / "a.gguf", TARGETS[name])
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model = Model.open(target, draft=str(assistant), gpu_layers="all", gpu="0", ctx=128)
    with model:
        why = f"{assistant}: a head drafts only where the CPU computes all layers; give --gpu-layers 0 to use it"
        assert [str(each.message) for each in said if "draft" in str(each.message)] == [why]
        assert model.drafts_with is None and len(model.engine.devices) == 2
        assert text_of(model, IDS[:20], **SETTINGS["greedy"])
