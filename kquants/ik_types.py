"""The tensor types that ik_llama.cpp adds to those of GGUF, so that its files are refused by the names of their types.

Numbers and sizes are those of its `gguf-py/gguf/constants.py`; rows of some types begin with a scale of the row. Types
whose names end in _R4, _R8 or _R16 have the rows of others interleaved.
"""

from kquants.ggml import NAMED_TYPES, GGMLType

_TYPES = (
    GGMLType(133, "Q6_0", 32, 26),
    GGMLType(134, "IQ1_BN", 64, 13, row_prefix=2),
    GGMLType(135, "IQ2_BN", 64, 16, row_prefix=4),
    GGMLType(137, "IQ2_K", 256, 76),
    GGMLType(138, "IQ3_K", 256, 110),
    GGMLType(139, "IQ4_K", 256, 144),
    GGMLType(140, "IQ5_K", 256, 176),
    GGMLType(141, "IQ6_K", 256, 212),
    GGMLType(144, "IQ4_KS", 256, 136, row_prefix=4),
    GGMLType(145, "IQ2_KS", 256, 70, row_prefix=2),
    GGMLType(146, "IQ4_KSS", 256, 128, row_prefix=4),
    GGMLType(151, "Q8_KV", 32, 32, row_prefix=8),
    GGMLType(152, "IQ5_KS", 256, 168, row_prefix=4),
    GGMLType(153, "IQ2_KT", 256, 68, row_prefix=4),
    GGMLType(154, "IQ3_KT", 256, 100, row_prefix=4),
    GGMLType(155, "IQ4_KT", 256, 128, row_prefix=4),
    GGMLType(156, "IQ3_KS", 256, 102, row_prefix=2),
    GGMLType(157, "IQ2_KL", 256, 86, row_prefix=2),
    GGMLType(158, "IQ1_KT", 256, 56, row_prefix=4),
    GGMLType(202, "Q4_0_R8", 32, 18),
    GGMLType(206, "Q5_0_R4", 32, 22),
    GGMLType(208, "Q8_0_R8", 32, 34),
    GGMLType(210, "Q2_K_R4", 256, 84),
    GGMLType(211, "Q3_K_R4", 256, 110),
    GGMLType(212, "Q4_K_R4", 256, 144),
    GGMLType(213, "Q5_K_R4", 256, 176),
    GGMLType(214, "Q6_K_R4", 256, 210),
    GGMLType(216, "IQ2_XXS_R4", 256, 66),
    GGMLType(217, "IQ2_XS_R4", 256, 74),
    GGMLType(218, "IQ3_XXS_R4", 256, 98),
    GGMLType(219, "IQ1_S_R4", 32, 6, row_prefix=2),
    GGMLType(220, "IQ4_NL_R4", 32, 18),
    GGMLType(221, "IQ3_S_R4", 256, 110),
    GGMLType(222, "IQ2_S_R4", 256, 82),
    GGMLType(223, "IQ4_XS_R8", 256, 136),
    GGMLType(229, "IQ1_M_R4", 32, 7, row_prefix=2),
    GGMLType(230, "BF16_R16", 1, 2),
    GGMLType(233, "Q6_0_R4", 32, 26),
    GGMLType(335, "IQ2_BN_R4", 64, 16, row_prefix=4),
    GGMLType(337, "IQ2_K_R4", 256, 76),
    GGMLType(338, "IQ3_K_R4", 256, 110),
    GGMLType(339, "IQ4_K_R4", 256, 144),
    GGMLType(340, "IQ5_K_R4", 256, 176),
    GGMLType(344, "IQ4_KS_R4", 256, 136, row_prefix=4),
    GGMLType(352, "IQ5_KS_R4", 256, 168, row_prefix=4),
    GGMLType(398, "Q8_KV_R8", 32, 32, row_prefix=4),
    GGMLType(399, "Q8_K_R8", 256, 258),
)

IK_TYPES: dict[int, GGMLType] = {kind.number: kind for kind in _TYPES}
NAMED_IK_TYPES: dict[str, GGMLType] = {kind.name: kind for kind in _TYPES}

_FILES = {
    **{kind: kind for kind in ("IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "Q2_K", "IQ3_XXS", "IQ3_S", "IQ4_XS", "Q6_K")},
    "IQ2_S": "IQ2_M",
    "Q4_K": "Q4_K_M",
    "Q5_K": "Q5_K_M",
    "Q8_0": "Q8_0",
    "BF16": "BF16",
}
"""For types that models are published in, the usual name of such files."""


def replacement(kind: GGMLType) -> str:
    """The name of the files whose weights have about as many bits as those of a type of IK_TYPES."""
    if "_BN" in kind.name:
        return "TQ1_0" if kind.name.startswith("IQ1") else "TQ2_0"  # three values, too
    return _FILES[min(_FILES, key=lambda name: abs(_bits(NAMED_TYPES[name]) - _bits(kind)))]


def _bits(kind: GGMLType) -> float:
    return 8 * kind.nbytes / kind.block
