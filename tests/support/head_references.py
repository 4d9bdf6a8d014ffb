"""What `transformers` computes with layers for multi-token prediction; see `support.make_head_references`."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

HEAD_REFERENCES = Path(__file__).parent / "golden" / "heads.npz"


class HeadReference(NamedTuple):
    """Pairs of tokens and features, and the states behind the last norm of the layer."""

    ids: NDArray[np.int32]
    features: NDArray[np.float32]
    states: NDArray[np.float32]


def head_reference(name: str) -> HeadReference:
    """That of a fixture."""
    with np.load(HEAD_REFERENCES) as found:
        return HeadReference(*(found[f"{name}.{part}"] for part in HeadReference._fields))
