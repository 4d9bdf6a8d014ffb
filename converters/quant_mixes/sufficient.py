"""The mix that is large enough for weights that were quantized before."""

from converters.quant_mixes.mixes import QUANT_MIXES
from kquants.ggml import NAMED_TYPES

_ENOUGH = {2: "Q3_K_M", 3: "Q4_K_M", 4: "Q5_K_M", 6: "Q6_K", 8: "Q8_0"}
"""By the bits of the weights: the mix from which on a larger one changes little."""


def smaller_mix(mix: str, bits: int) -> str | None:
    """The mix that is large enough for weights of `bits`, if `mix` is larger than that; otherwise None."""
    enough = next((name for most, name in _ENOUGH.items() if bits <= most), None)
    return enough if enough and _size(mix) > _size(enough) else None


def _size(mix: str) -> float:
    """Bytes of a weight of the type that most matrices get."""
    kind = NAMED_TYPES[QUANT_MIXES[mix].type]
    return kind.row_bytes(kind.block) / kind.block
