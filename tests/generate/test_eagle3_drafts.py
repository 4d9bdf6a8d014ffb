"""Replies that an EAGLE-3 head drafts for: the same text as without it, in fewer steps."""

import os
import shutil
import sys
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from edgellm import EdgeLLMError, EdgeLLMWarning, Model, ModelFileError
from edgellm.builtin import PATH
from edgellm.engine.head_engine import HeadEngine
from edgellm.errors import NoMemoryError
from support.certain_heads import CertainFiles, write_certain_head
from support.draft_pairs import counted
from support.drafts import AllDrafts
from support.eagle3_heads import HEADS, HeadFiles, write_head_files

PROMPT = [5, 9, 300, 41, 77, 12, 5, 9]
NO_END = {2: -float("inf")}


@pytest.fixture(autouse=True)
def all_drafts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgellm.generate.speculative_decoder.DraftPolicy", AllDrafts)


@pytest.fixture(scope="module", params=sorted(HEADS))
def files(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> HeadFiles:
    return write_head_files(tmp_path_factory.mktemp("heads"), request.param, "Q8_0")


@pytest.fixture(scope="module")
def certain(tmp_path_factory: pytest.TempPathFactory) -> CertainFiles:
    return write_certain_head(tmp_path_factory.mktemp("certain"))


@pytest.fixture
def drafting(certain: CertainFiles) -> Iterator[Model]:
    with Model.open(certain.target, draft=str(certain.head), ctx=128) as model:
        yield model


def text_of(model: Model, prompt: list[int] = PROMPT, **options: Any) -> list[tuple[int, float | None]]:
    given = {"max_tokens": 40, "seed": 3, "logit_bias": NO_END, "logprobs": 1} | options
    return [(token.id, token.logprob) for token in model.stream(prompt, **given)]


SETTINGS: dict[str, dict[str, Any]] = {
    "greedy": {"temp": 0},
    "sampled": {"temp": 0.8},
    "hot": {"temp": 1.5, "top_k": 0, "top_p": 1},
    "penalties": {"temp": 0.8, "repeat_penalty": 1.3},
    "guide": {"temp": 0.8, "regex": "[a-z ]{30}", "logit_bias": {}},
}


def test_the_text_is_the_same_to_the_bit(files: HeadFiles) -> None:
    with Model.open(files.target, draft="off", ctx=128, threads=1) as model:
        alone = {name: text_of(model, **settings) for name, settings in SETTINGS.items()}
    for threads in (1, 3):
        with Model.open(files.target, draft=str(files.head), ctx=128, threads=threads) as model:
            with counted(model.engine.draft_head) as passes:
                found = {name: text_of(model, **settings) for name, settings in SETTINGS.items()}
            assert found == alone
            assert len(passes) > 50


def test_a_step_gives_eight_tokens_of_a_certain_head(drafting: Model, certain: CertainFiles) -> None:
    steps = list[int]()
    forward = drafting.engine.forward
    drafting.engine.forward = lambda parts: (steps.append(len(parts[0].tokens)), forward(parts))[1]  # type: ignore[method-assign]
    ids = [token for token, _ in text_of(drafting, temp=0, max_tokens=33)]
    assert ids == chain(certain, PROMPT[-1], 33)
    assert steps == [len(PROMPT), 1, 8, 8, 8, 7], "the first step tells how long one takes, the last has what is left"


def test_replies_after_others_and_together(certain: CertainFiles) -> None:
    """Prompts that begin with an earlier text come from the prefix cache, where no head followed."""
    prompts = [PROMPT, [*PROMPT, *chain(certain, PROMPT[-1], 70)], [*PROMPT[:5], 8, 30], [7, 6]]
    options: dict[str, Any] = {"temp": 1.0, "top_k": 0, "max_tokens": 30}
    with Model.open(certain.target, draft="off", ctx=128) as model:
        alone = [text_of(model, prompt, **options) for prompt in prompts]
    with Model.open(certain.target, draft=str(certain.head), ctx=128) as model, ThreadPoolExecutor(4) as pool:
        for prompt, expected in zip(prompts, alone, strict=True):
            with counted(model.engine.draft_head) as passes:
                assert text_of(model, prompt, **options) == expected
            assert len(passes) > 15
        with counted(model.engine.draft_head) as passes:
            assert list(pool.map(lambda prompt: text_of(model, prompt, **options), prompts)) == alone
        assert len(passes) > 15


def test_a_head_of_another_target_is_refused(certain: CertainFiles) -> None:
    with pytest.raises(ModelFileError, match=r"head\.gguf: .*this one has"):
        Model.open(PATH, draft=str(certain.head))


def test_a_head_that_was_asked_for_is_left_out_for_want_of_memory_alone(
    certain: CertainFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = iter([NoMemoryError("no memory for 3 GB"), EdgeLLMError("no kernels")])

    def fail(*_: object, **__: object) -> HeadEngine:
        raise next(errors)

    monkeypatch.setattr("edgellm.engine.head_request.HeadEngine", fail)
    with pytest.warns(EdgeLLMWarning, match=r"head\.gguf: the head cannot draft: no memory for 3 GB") as said:
        model = Model.open(certain.target, draft=str(certain.head), ctx=128)
    with model:
        assert len(said) == 1 and model.drafts_with is None
        assert len(text_of(model)) == 40
    with pytest.raises(EdgeLLMError, match="no kernels"):
        Model.open(certain.target, draft=str(certain.head), ctx=128)


def chain(files: CertainFiles, token: int, n: int) -> list[int]:
    """The n tokens that follow a token."""
    found = list[int]()
    for _ in range(n):
        token = int(files.following[token])
        found.append(token)
    return found


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not let a mapped file be cut short")
@pytest.mark.parametrize("action", ["default", "error"])
def test_a_head_file_that_is_cut_short_ends_its_drafts(
    certain: CertainFiles, tmp_path: Path, action: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """A filter that makes warnings errors does not end the reply."""
    head = Path(shutil.copy(certain.head, tmp_path))
    with Model.open(certain.target, draft=str(head), ctx=128) as model:
        whole = text_of(model, temp=0)
        os.truncate(head, 4096)
        with counted(model.engine.draft_head) as passes, warnings.catch_warnings():
            warnings.simplefilter(action)
            warnings.showwarning = lambda message, *_, **__: print(message)
            assert text_of(model, temp=0) == whole
        assert len(passes) == 1
        assert "head.gguf: was cut short while it was in use" in (said := capsys.readouterr().out)
        assert said.count("head.gguf") == 1
        assert said.count("replies go on without its drafts") == 1
        assert model.drafts_with is None


@pytest.mark.gpu
def test_with_layers_on_a_gpu_a_warning_says_that_a_head_does_not_draft(certain: CertainFiles) -> None:
    from support.gpus import adapter

    adapter()
    with pytest.warns(EdgeLLMWarning, match=r"head\.gguf: a head drafts only where .*--gpu-layers 0") as said:
        model = Model.open(certain.target, draft=str(certain.head), gpu_layers="all", gpu="0", gpu_strict=True, ctx=128)
    with model:
        assert [str(each.message) for each in said if "draft" in str(each.message)] == [str(said[0].message)]
        assert model.drafts_with is None and len(model.engine.devices) == 2
        assert len(text_of(model)) == 40
