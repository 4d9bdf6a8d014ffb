"""The tensor types of GGUF: their numbers, names and block sizes.

Numbers and sizes are those of ggml (`ggml.h`, enum ggml_type). Numbers that ggml has retired are listed in
REMOVED_TYPES, so that an old file can be refused by the name of its type; `kquants.ik_types` lists those of a fork.
edgellm computes with `kquants.FORMATS`.
"""

from typing import NamedTuple


class GGMLType(NamedTuple):
    """A tensor type: a row is blocks of `block` weights in `nbytes` bytes each.

    `scales` are the byte offsets of a block's float16 scales, which `verify` checks for NaN and Inf. `row_prefix` bytes
    stand before the blocks of each row.
    """

    number: int
    name: str
    block: int
    nbytes: int
    scales: tuple[int, ...] = ()
    row_prefix: int = 0

    def row_bytes(self, n: int) -> int:
        """Bytes of a row of `n` weights; `n` must be a multiple of `block`."""
        return self.row_prefix + n // self.block * self.nbytes


_TYPES = (
    GGMLType(0, "F32", 1, 4),
    GGMLType(1, "F16", 1, 2),
    GGMLType(2, "Q4_0", 32, 18, (0,)),
    GGMLType(3, "Q4_1", 32, 20, (0, 2)),
    GGMLType(6, "Q5_0", 32, 22, (0,)),
    GGMLType(7, "Q5_1", 32, 24, (0, 2)),
    GGMLType(8, "Q8_0", 32, 34, (0,)),
    GGMLType(9, "Q8_1", 32, 36, (0, 2)),
    GGMLType(10, "Q2_K", 256, 84, (80, 82)),
    GGMLType(11, "Q3_K", 256, 110, (108,)),
    GGMLType(12, "Q4_K", 256, 144, (0, 2)),
    GGMLType(13, "Q5_K", 256, 176, (0, 2)),
    GGMLType(14, "Q6_K", 256, 210, (208,)),
    GGMLType(15, "Q8_K", 256, 292),
    GGMLType(16, "IQ2_XXS", 256, 66, (0,)),
    GGMLType(17, "IQ2_XS", 256, 74, (0,)),
    GGMLType(18, "IQ3_XXS", 256, 98, (0,)),
    GGMLType(19, "IQ1_S", 256, 50, (0,)),
    GGMLType(20, "IQ4_NL", 32, 18, (0,)),
    GGMLType(21, "IQ3_S", 256, 110, (0,)),
    GGMLType(22, "IQ2_S", 256, 82, (0,)),
    GGMLType(23, "IQ4_XS", 256, 136, (0,)),
    GGMLType(24, "I8", 1, 1),
    GGMLType(25, "I16", 1, 2),
    GGMLType(26, "I32", 1, 4),
    GGMLType(27, "I64", 1, 8),
    GGMLType(28, "F64", 1, 8),
    GGMLType(29, "IQ1_M", 256, 56),
    GGMLType(30, "BF16", 1, 2),
    GGMLType(34, "TQ1_0", 256, 54, (52,)),
    GGMLType(35, "TQ2_0", 256, 66, (64,)),
    GGMLType(39, "MXFP4", 32, 17),
    GGMLType(40, "NVFP4", 64, 36),
    GGMLType(41, "Q1_0", 128, 18, (0,)),
    GGMLType(42, "Q2_0", 64, 18, (0,)),
)

GGML_TYPES: dict[int, GGMLType] = {t.number: t for t in _TYPES}
NAMED_TYPES: dict[str, GGMLType] = {t.name: t for t in _TYPES}
REMOVED_TYPES = {
    4: "Q4_2",
    5: "Q4_3",
    31: "Q4_0_4_4",
    32: "Q4_0_4_8",
    33: "Q4_0_8_8",
    36: "IQ4_NL_4_4 (or I2_S, if bitnet.cpp made the file)",
    37: "IQ4_NL_4_8",
    38: "IQ4_NL_8_8",
}
