"""Replies of a model with a draft model: the same text, how many drafts, and what their figures are."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from edgellm import Model
from edgellm.arch import describe
from edgellm.gguf import GGUFFile
from edgellm.options import MAX_DRAFT
from edgellm.perf.mbu import MBUEstimator
from edgellm.speculation import draft_sizes
from edgellm.speculation.rules import Rejection
from kquants.kv_layout import PAGE
from support.guided_models import SCHEMA
from support.opened_drafts import PROMPT, REPLY, Opening, text_of, until

pytestmark = pytest.mark.usefixtures("all_drafts")


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


def test_the_text_is_the_same_and_the_target_computes_fewer_steps(
    draft_files: tuple[Path, Path], opening: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, draft = draft_files
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
    draft_files: tuple[Path, Path], opening: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a bandwidth of a byte per second, and a target whose bytes are left out."""
    monkeypatch.setattr(MBUEstimator, "mbu", lambda estimator, tps, depth, draft_bytes: draft_bytes)
    opening.go.set()
    with Model.open(draft_files[0], draft=draft_files[1]) as model:
        until(lambda: model.drafts_with)
        stats = model.generate(PROMPT, **REPLY).stats
    with GGUFFile.open(draft_files[1]) as file:
        a_pass = draft_sizes.active_bytes(describe(file))
    assert stats.mbu and stats.decode_tps
    assert stats.mbu * 59 / stats.decode_tps == pytest.approx(opening.passes * a_pass)


@pytest.mark.parametrize(("options", "most"), [({}, 7), ({"draft_max": 2}, 2), ({"draft": "off"}, 0)])
def test_the_most_drafts_of_a_step(
    draft_files: tuple[Path, Path], options: dict[str, Any], most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Model.open(draft_files[0], **{"draft": draft_files[1], **options}) as model, counted_steps(model) as rows:
        if most:
            until(lambda: model.drafts_with)
        prompt = model.tokenizer.encode("the time was " * 9)
        assert list(model.stream(prompt, **REPLY, repeat_penalty=0.9))
    assert rows.pop(0) == len(prompt)
    assert max(rows) == most + 1


def test_text_that_a_form_forces_behind_drafts_takes_no_more_rows(
    draft_files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Drafts beyond the limit would need states and pages that are not there."""
    steps = list[tuple[int, int]]()
    with Model.open(draft_files[0], draft=draft_files[1]) as model:
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
    draft_files: tuple[Path, Path], opening: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged, choose = list[bool](), Rejection.choose

    def counted(rule: Rejection, p: Any, proposal: Any, key: Any, position: int) -> int:
        token = choose(rule, p, proposal, key, position)
        judged.extend([token == proposal.token] if proposal and proposal.q else [])
        return token

    monkeypatch.setattr(Rejection, "choose", counted)
    opening.go.set()
    with Model.open(draft_files[0], draft=draft_files[1], draft_rule="rejection") as model:
        until(lambda: model.drafts_with)
        assert len(text_of(model)) == 60
    assert sum(judged) > len(judged) / 2 > 0


@pytest.mark.gpu
def test_a_gpu_verifies_drafts_that_the_cpu_computes(
    draft_files: tuple[Path, Path], opening: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    from support.gpus import adapter

    adapter()
    opening.go.set()
    on_gpu: dict[str, Any] = {"gpu_layers": "all", "gpu_strict": True, "gpu": "0", "threads": 2}
    with Model.open(draft_files[0], **on_gpu) as model:
        alone = [text_of(model, temp=temp, max_tokens=16) for temp in (0, 0.8)]
    with Model.open(draft_files[0], draft=draft_files[1], **on_gpu) as model, counted_steps(model) as steps:
        assert len(model.engine.devices) == 2
        until(lambda: model.drafts_with)
        found = [text_of(model, temp=temp, max_tokens=16) for temp in (0, 0.8)]
    assert found == alone, "the same tokens, as these logits are far from each other"
    assert opening.passes
    assert len(steps) < 2 * 16, "one batch gave several tokens"
