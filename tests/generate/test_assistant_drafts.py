"""Replies that an assistant of Gemma 4 drafts for: the same text as without it."""

from pathlib import Path
from typing import Any

import pytest

from edgellm import Model
from support.archs import ArchFixture
from support.drafts import AllDrafts
from support.gemma_assistants import IDS, write_assistant

SETTINGS: dict[str, dict[str, Any]] = {
    "greedy": {"temp": 0},
    "sampled": {"temp": 0.8, "seed": 4},
    "hot": {"temp": 1.5, "top_k": 0, "top_p": 1, "seed": 5},
}


@pytest.fixture(autouse=True)
def all_drafts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgellm.generate.speculation.DraftPolicy", AllDrafts)


def test_the_text_is_the_same_to_the_bit(shared: Path, tmp_path: Path) -> None:
    target, assistant = ArchFixture.of(shared, "gemma4_e2b").gguf, write_assistant(tmp_path / "a.gguf")

    def texts(model: Model) -> dict[str, list[tuple[int, float | None]]]:
        """Those of prompts shorter and longer than the window, and of one that begins with an earlier text."""
        found = {}
        for n in (5, 30, 20):
            for name, settings in SETTINGS.items():
                given = {"max_tokens": 40, "logprobs": 1} | settings
                found[f"{name} {n}"] = [(token.id, token.logprob) for token in model.stream(IDS[:n], **given)]
        return found

    with Model.open(target, draft="off", ctx=128, threads=1) as model:
        alone = texts(model)
    for threads in (1, 3):
        with Model.open(target, draft=str(assistant), ctx=128, threads=threads) as model:
            head, passes = model.engine.head, []  # type: ignore[attr-defined]
            compute = head.compute
            head.compute = lambda parts: (passes.append(len(parts)), compute(parts))[1]  # noqa: B023
            assert texts(model) == alone
            assert len(passes) > 50
