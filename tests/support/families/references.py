"""What `transformers` computes of each case, from the files in tests/support/golden/families."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from support.families.case import VOCABULARY
from support.families.checkpoint import DrawnTensor

FAMILY_REFERENCES = Path(__file__).parents[1] / "golden" / "families"

IDS: list[int] = np.random.default_rng(4).integers(3, VOCABULARY, 600).tolist()
"""The prompt of all cases. It crosses pages of 64 cells, KV blocks of 256, windows, and what is kept before them."""

POSITIONS = [0, 1, 15, 23, 24, 40, 63, 64, 100, 129, 199, 255, 256, 299, 420, 599]
"""The positions whose logits are stored."""


@dataclass(frozen=True)
class FamilyReference:
    """The tensors of a checkpoint and their results, computed in float64.

    `logits` are those of POSITIONS of IDS, (16, vocabulary) float32; `greedy` are the 8 ids that follow IDS.
    """

    tensors: dict[str, DrawnTensor]
    logits: NDArray[np.float32]
    greedy: list[int]


def load_reference(name: str) -> FamilyReference:
    """The stored reference of the case `name`."""
    with np.load(FAMILY_REFERENCES / f"{name}.npz") as file:
        drawn = json.loads(file["tensors"].tobytes())
        tensors = {key: DrawnTensor(tuple(shape), *spread) for key, (shape, *spread) in drawn.items()}
        return FamilyReference(tensors, file["logits"], file["greedy"].tolist())


def save_reference(name: str, reference: FamilyReference) -> None:
    """Store a reference. The same numbers give the same file."""
    text = json.dumps(reference.tensors, separators=(",", ":")).encode()
    FAMILY_REFERENCES.mkdir(exist_ok=True)
    np.savez_compressed(
        FAMILY_REFERENCES / f"{name}.npz",
        tensors=np.frombuffer(text, np.uint8),
        logits=reference.logits.astype(np.float32),
        greedy=np.array(reference.greedy, np.int16),
    )
