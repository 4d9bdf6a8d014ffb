"""What decoding a token reads and multiplies, and how fast that can be expected to be."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from edgellm.arch.description import Description, tensors_in
from edgellm.engine.build_program import build_program
from edgellm.perf.machine_profile import MEMORY
from kquants.kv_layout import PAGE

LAYER_S, LAYER_ALONE_S = 20e-6, 6e-6
"""Seconds that a layer takes beside reading: barriers, norms, activations; with one thread the latter."""

TOKEN_S = 100e-6
"""Seconds that a token takes beside its layers, in Python above all. Measured: 60 to 100 µs."""


@dataclass(frozen=True)
class Traffic:
    """The bytes of memory that decoding a token reads: `weights`, and `cell` for each token that it sees.

    `matrices` has the bytes of those weights that are multiplied, by their format.
    """

    weights: int
    cell: int
    matrices: Mapping[str, int]

    @classmethod
    def of(cls, model: Description, kv_type: str) -> "Traffic":
        """What a model reads: every tensor of the layers and the output head once, and a row of the embedding.

        Where the embedding is the output head too, all of it is read anyway.
        """
        used = {id(t): t for t in tensors_in([model.layers, model.output_norm, model.output])}
        row = 0 if id(model.embedding) in used else model.embedding.type.row_bytes(model.width)
        matrices = Counter[str]()
        for tensor in used.values():
            if len(tensor.shape) == 2:  # the others are norms and biases
                matrices[tensor.type.name] += tensor.nbytes
        weights = sum(tensor.nbytes for tensor in used.values()) + row
        return cls(weights, build_program(model, kv_type).page_bytes // PAGE, matrices)

    def per_token(self, depth: float) -> float:
        """Bytes read to decode one token that has `depth` tokens before it."""
        return self.weights + self.cell * (depth + 1)

    @property
    def wanted(self) -> list[str]:
        """The names of the speeds (see `edgellm.perf.machine_profile`) that tell how fast it will be."""
        return [MEMORY, *self.matrices]

    def multiplied(self, speeds: Mapping[str, float]) -> float | None:
        """Bytes of these weights, of all their formats, that are multiplied in a second; None where it is unknown."""
        if not self.matrices.keys() <= speeds.keys():
            return None
        return sum(self.matrices.values()) / sum(nbytes / speeds[name] for name, nbytes in self.matrices.items())


def decode_tps(
    traffic: Traffic, layers: int, speeds: Mapping[str, float], threads: int, depth: float = 0
) -> float | None:
    """The tokens per second to expect, `depth` tokens in, of so many threads with these speeds; None if one is unknown.

    Weights and KV cells are read from memory, and multiplied meanwhile: the slower of the two decides, and hides most
    of the other. How they add up is what fits: as powers of 2.5 do. Tokens per second that were measured, of what is
    expected by speeds of the same hour, with one thread and two: on a Zen 4 with AVX2 alone, where arithmetic decides,
    1.05 (Q4_K_M) to 1.15 (Q8_0, two threads); on a Zen 5, whose memory gave 42 to 81 GB/s, 0.91 to 1.04; on a Granite
    Rapids, 18 to 36 GB/s, 0.97 to 1.0. (What two threads of these two multiply was taken for twice what one does.)
    """
    memory, multiplied = speeds.get(MEMORY), traffic.multiplied(speeds)
    if memory is None or multiplied is None:
        return None
    read = traffic.per_token(depth)
    waiting: float = ((read / memory) ** 2.5 + (read / multiplied) ** 2.5) ** (1 / 2.5)
    return 1 / (waiting + layers * (LAYER_S if threads > 1 else LAYER_ALONE_S) + TOKEN_S)
