"""What a beam search of `transformers` finds, from tests/support/golden/beams.json."""

import json
from pathlib import Path
from typing import NamedTuple

from support.families.references import IDS

BEAM_REFERENCES = Path(__file__).parent / "golden" / "beams.json"

CASES = ["llama3", "qwen3_window", "lfm2", "granite4_h_tiny"]
"""Those of `support.families`: attention alone, windows, and two with recurrent layers."""

PROMPT = IDS[:150]
MAX_TOKENS = 14
END = 2
"""The token that ends a reply."""
OTHER_END = 0
"""Another one for edgellm, which no reply of these searches has."""


class BeamCase(NamedTuple):
    """A search with `beams`, where `bias` is added to the logit of END; and what it finds, best first."""

    beams: int
    bias: float
    tokens: list[list[int]]
    scores: list[float]


SEARCHES = [(2, 5.0), (3, 4.0), (5, 6.0), (4, -float("inf"))]
"""Beams and biases; with the last one no reply has an END, and all have MAX_TOKENS."""


def load_beams(name: str) -> list[BeamCase]:
    """The searches of a case."""
    cases = json.loads(BEAM_REFERENCES.read_text(encoding="utf-8"))[name]
    return [BeamCase(*search, *case) for search, case in zip(SEARCHES, cases, strict=True)]
