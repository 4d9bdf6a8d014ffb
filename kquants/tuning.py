"""The tuning table: how kernels are shaped on each class of CPU, with what was measured. Imports no compiler.

Every decision that depends on the CPU, and that is no choice of an instruction (those are in `kquants.simd`), is a
field of `Tuning`. There is one record for each class of CPU, in `RECORDS`; `tuning()` chooses the first that fits. To
add a CPU, add a record in front of those for its class.

Of all fields only `split_k` and `activation_int8_max` change the results of a model, by rounding; the others change
speed alone.

Figures are named with the CPU that gave them. "Step" is a whole step of decode with a 1.2B file, "product" a single
matmul. A record whose class was not measured says so; its values are those of the nearest CPU that was.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cache

from kquants.compiler import cpu

Distances = tuple[int, ...]
"""Bytes beyond the weights that are read next: each cache line is prefetched once per distance.

A distance listed twice is prefetched twice, because CPUs drop prefetches while they have no room for them."""


class PrefetchLevel(IntEnum):
    """How near to the core a prefetch brings a cache line, in LLVM's terms."""

    NON_TEMPORAL = 0
    """Into the first-level cache alone, and not kept after it was read."""
    L2 = 2
    """Into the second-level cache."""
    L1 = 3
    """Into the first-level cache."""


@dataclass(frozen=True)
class Tuning:
    """The record of one class of CPU; the defaults are those of a CPU that nothing is known of."""

    lowering: str
    """What dot products of bytes are made of: a name of `kquants.compiler.cpu.lowering`."""
    cpu_name: str = ""
    """LLVM's name of the CPU ("znver4"), or "Intel" or "Arm" for all of theirs; empty for any CPU with the lowering."""

    # --- matmul of a few rows of x: decode ---
    decode_rows: int = 2
    """The most rows of x that are multiplied straight from W; for more rows, W is unpacked first."""
    decode_rows_winograd: int = 2
    """The same for formats that are multiplied by Winograd's inner product, which take longest to unpack."""
    decode_row_pairs: tuple[str, ...] = ()
    """Formats for which one row of x is multiplied by two rows of W in a register: `kquants.matmul.row_pairs`."""
    decode_row_by_row: tuple[str, ...] = ()
    """Formats for which one row of x is multiplied by the rows of W one by one: `kquants.matmul.row_by_row`."""
    decode_prefetch: Distances = (0, 4096)
    """Prefetches beside a super-block of a tile: bytes beyond the same super-block of the next tile, in this order."""
    decode_prefetch_by_bits: Mapping[int, Distances] = field(default_factory=dict)
    """The same for formats of some bits."""
    decode_prefetch_split: Mapping[int, Distances] = field(default_factory=dict)
    """The same for formats of some bits where split-K takes parts of rows."""
    decode_prefetch_next_super_block: bool = False
    """Whether decode prefetches the next super-block of each row of the tile, too, into the first-level cache."""
    decode_prefetch_level: PrefetchLevel = PrefetchLevel.L2
    """Where prefetches bring weights that are read once in a step."""
    output_prefetch_tiles: int = 64
    """Tiles whose y decode prefetches together, to write it: 64 tiles of 16 float32 are one 4 KB page."""

    # --- split-K: a long row of W as several parts, each with sums of its own ---
    split_k: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """By bits of a format: the parts of a row whose tile is large, then of one whose tile is very large."""
    split_k_bytes: tuple[int, int] = (20 << 10, 80 << 10)
    """Bytes of the largest tile that is not large, and of the largest that is not very large."""

    # --- matmul of many rows of x: prefill ---
    prefill_rows: int = 2
    """Rows of x times tiles of W whose sums registers hold, with their dot products."""
    prefill_tiles: int = 1
    """Tiles of W among these, at most."""
    prefill_all_sub_blocks: bool = False
    """Whether the sub-blocks of a unit are multiplied side by side, not one after the other."""
    prefill_via_int16: bool = False
    """Whether signed weights are unpacked to int16, and sums of unsigned ones scaled as int16 while they are widened.

    Only for lowerings whose products of bytes pass through int16."""
    prefill_prefetch: Distances = (0, 4096)
    """Prefetches beside weights that are unpacked: bytes beyond the same super-block of the next tiles."""
    prefill_x_ahead: int = 32
    """Rows of x from those that are multiplied to those that are prefetched."""
    prefetch_level: PrefetchLevel = PrefetchLevel.L2
    """Where prefetches bring what is read soon, or more than once."""
    winograd: bool = False
    """Whether formats of 4 bits with minima are multiplied by Winograd's inner product: `kquants.formats.winograd`."""
    amx: bool = False
    """Whether more than `decode_rows` rows of x are multiplied by AMX tiles."""
    activation_int8_max: int = 127
    """Largest magnitude of an int8 of activations for formats with super-blocks."""
    column_bytes: int = 16
    """Bytes of each row of a tile that are loaded, and transposed, at once."""

    # --- matmul of float weights ---
    float_decode_rows: int = 2
    """The most rows of x that are multiplied straight from W, which is read for each of them."""
    float_x_rows: int = 3
    """Rows of x in a register tile, with four of W: the sums, a register of each x and one of W fill the registers."""
    float_packed_bytes: int = 1024
    """Bytes of a row of W that are packed at once in prefill."""
    float_prefetch_row: int = 8
    """Rows of W from the row that decode reads to the first row that it prefetches."""
    float_prefetch_rows: int = 4
    """Rows of W that decode prefetches together, from `float_prefetch_row` rows ahead on."""
    float_prefetch_repeats: int = 3
    """Prefetches of each of these rows for every 16 columns; 0: one for each cache line.

    More than one, because CPUs drop prefetches while they have no room for them."""

    # --- attention ---
    attention_queries: int = 4
    """Queries of a micro-tile of prefill."""
    attention_vectors: int = 1
    """Vectors in a wide micro-tile, each of 16 keys or of 16 values of a cell.

    The other micro-tiles have one vector: they take the columns that are left over."""
    attention_q8_keys: int = 1
    """Vectors of keys of a micro-tile of int8, which keeps integer sums besides."""

    # --- microbenchmark ---
    int8_peak_sums: int = 4
    """Sums of a thread in the microbenchmark of int8: enough to hide the latency of a product, few enough for the
    registers; via int16, so few that each gets whole chains of eight products, as in Q4_K."""


_SPLIT_K = {2: (4,), 3: (4,), 4: (4,), 5: (4, 16), 6: (4, 16), 7: (4, 8), 8: (4, 8)}
# measured on Zen 5: large tiles (27 to 136 KB) do not stay in its first-level cache of 48 KB with what is prefetched;
#   it read them at 0.82 to 0.93 of the memory's bandwidth, and steps gained 3 to 5 % by split-K. Rows of 8,192 columns:
#   Q8_0 4 parts 0.87, 8 parts 0.94; Q6_K 4 parts 0.86 to 0.92, 16 parts 0.91 to 1.0. Q6_K gains nothing by 8, Q8_0 no
#   more by 16; four parts of Q4_K are small enough. (14,336 columns of Q4_K: 8 or 16 would gain 2 to 6 %, and take a
#   third longer to compile.) MXFP4 (5 bits), IQ4_NL and IQ4_XS (7) are assumed to be alike.

_GRIDS = ("iq3_s", "iq3_xxs", "iq2_s", "iq2_xs", "iq2_xxs")
"""Formats whose magnitudes are points of a grid, which are looked up in memory on CPUs without AVX-512 VBMI."""

_AVX512_VNNI = Tuning(
    lowering="AVX-512 VNNI",
    decode_rows=4,
    # measured on Zen 4 with AVX-512 (GB/s, two threads, weights in the caches; straight from W, and unpacked):
    #   rows of x      1       2       3         4         6         8
    #   Q4_K          59      50      42, 14    34, 14    26, 15    20, 13
    #   Q6_K          53      40      32, 20    24, 21    20, 21    16, 21
    #   Q8_0          55      52      41, 18    35, 18    26, 18    21, 18
    #   More rows gain less, or lose, and kernels with four take two fifths longer to compile.
    decode_prefetch=(0, 4096, 0, 4096),
    # measured on Zen 5 (shares of the bandwidth of 40 and 65 GB/s, against (0, 4096, 8192)): Q4_K +0.04 and +0.03
    #   (0.99, 0.96), with 8,192 columns +0.05; Q8_0 +0.05 and +0.04. Steps of 1 to 12 KB are much the same.
    decode_prefetch_by_bits={6: (0, 2048, 4096, 0)},
    # measured on Zen 5: Q6_K +0.02 to +0.04 where cores share the way to the memory, else -0.01.
    decode_prefetch_split={5: (8192, 0, 8192, 0), 6: (8192, 0, 8192, 0)},
    # measured on Zen 5: most split tiles are small (6 KB), so what lies next is prefetched too late: +0.02 to +0.08,
    #   and +0.05 to +0.12 where each core has its own way. Q8_0 (9 KB) loses 0.01 by going further, or gains 0.03.
    split_k=_SPLIT_K,
    prefill_rows=8,
    # measured on Zen 5: one tile and 8 rows of x take 9 loads for 8 products, two tiles and 4 rows 6.
    prefill_tiles=2,
    prefill_all_sub_blocks=True,
    # side by side, sub-blocks have products enough in flight to hide the latency of each.
    prefill_prefetch=(0, 4096),
    # measured on Zen 5: with the first alone, eight sequences decode 2 to 3 % slower (Granite Rapids: 4 to 7 %).
    column_bytes=32,
    # measured on Zen 5: half the loads; a row of x times weights in the caches takes 1 to 10 % fewer cycles, by format.
    float_decode_rows=4,
    # measured on Zen 4 with AVX-512: four rows of F16 as fast in both ways, three 1.3 times; of BF16 1.5 and 1.7 times.
    float_x_rows=6,
    # measured on Zen 4 with AVX-512: BF16 at 0.89 of the speed by 2 rows of W and 12 of x.
    float_packed_bytes=2048,
    # measured on Zen 4 with AVX-512: BF16 4 to 6 % faster than with 1 KB, F16 2 %.
    float_prefetch_repeats=3,
    # measured on Zen 4 with AVX-512: F16 1.24 times as fast by 2, 1.37 by 3, 1.18 by 5 (62 GB/s; slow memory: 1.04 by
    #   3); pairs of bfloat16 1.18 by 3, 1.25 by 5, 1.32 by 6. From 4 rows ahead as fast, in file order 0.83.
    attention_vectors=4,
    attention_q8_keys=2,
    # four vectors fill 16 of 32 registers.
    int8_peak_sums=12,
)
"""AVX-512 with VNNI, CPUs that were not measured: the values of a Zen 5, but for its prefetch levels."""

_AVX512 = replace(
    _AVX512_VNNI,
    lowering="AVX-512",
    decode_rows=2,
    float_decode_rows=2,
    prefill_tiles=1,
    prefill_all_sub_blocks=False,
    prefill_via_int16=True,
    # products via int16 keep int16 beside the sums: there are no registers left.
    int8_peak_sums=3,
)
"""AVX-512 without VNNI; not measured."""

_AVX2 = Tuning(
    lowering="AVX2",
    decode_rows=2,
    # measured on Zen 4 with AVX2 alone: four rows are as fast in both ways.
    decode_row_pairs=("q8_0", "q5_k", "q4_k", "q4_0", "iq4_nl", "mxfp4"),
    # measured on Zen 4 with AVX2 alone: a step of Q4_K_M 3 % faster, of Q8_0 8 %. Products: Q8_0 1.20 times, MXFP4
    #   1.12, IQ4_NL and Q5_K 1.09, Q4_K 1.06, Q4_0 1.04. Slower: Q4_1 0.88, Q5_0 0.79, Q5_1 0.77, IQ4_XS 0.99, Q2_K
    #   0.93, Q3_K 0.90; with two rows of x Q4_K 0.90.
    decode_row_by_row=("q6_k", *_GRIDS),
    # measured on Zen 4 with AVX2 alone: a step of Q4_K_M 8 % faster, Q6_K's product 1.2 times as fast.
    # measured on Emerald Rapids with AVX2 alone, one thread, products against a row in each lane: IQ2_XXS 1.30 times as
    #   fast, IQ2_XS 1.55 to 1.62, IQ2_S 1.21 to 1.35, IQ3_XXS 1.43 to 1.48, IQ3_S 1.26 to 1.29; Q6_K in the same loop
    #   1.02.
    decode_prefetch=(0, 4096),
    # measured on Zen 4 with AVX2 alone, against four prefetches: Q4_K 3 to 5 % faster, Q5_K and Q4_0 3 to 8, Q3_K 16,
    #   Q6_K 4, Q8_0 6. A single one: Q4_K of 2,048 columns -11 %, Q6_K -6.
    split_k={},
    # measured on Zen 4 with AVX2 alone: whole rows are 9 to 11 % faster (Q4_K), 28 (Q5_K), 15 to 23 (Q6_K), 5 to 7
    #   (Q8_0); steps of Q4_K_M 10 % with one thread, 6 with two, of Q8_0 3.
    prefill_rows=4,
    # measured on Zen 4 with AVX2 alone: 3 to 8 % faster than two rows, though registers hold the dot products alone.
    prefill_via_int16=True,
    # measured on Zen 4 with AVX2 alone: Q8_0 1.3 times as fast; Q4_K and Q5_K 8 %, Q2_K 12, Q3_K 16, Q6_K 22 %.
    float_packed_bytes=1024,
    # measured on Zen 4 with AVX2 alone: with 2 KB BF16 6 % slower, F16 1 to 4.
    float_prefetch_repeats=3,
    # measured on Zen 4 with AVX2 alone: F16 1.05 times as fast by 3 as by 1, BF16 1.18; without any F16 at 0.75.
    attention_queries=6,
    # measured on Zen 4 with AVX2 alone: attention takes 0.94 of the time; four queries leave multipliers idle.
    int8_peak_sums=1,
)
"""AVX2 alone: Zen 1 to 3, and a Zen 4 whose AVX-512 is hidden."""

_AVX_VNNI = Tuning(lowering="AVX-VNNI", decode_row_by_row=_GRIDS, split_k=_SPLIT_K, attention_queries=6)
# measured on Emerald Rapids with AVX-VNNI alone, one thread, decode_row_by_row against a row in each lane: IQ2_XXS 1.56
#   times as fast, IQ2_XS 1.68 to 1.84, IQ2_S 1.46 to 1.58, IQ3_XXS 1.37 to 1.45, IQ3_S 1.28 to 1.36.
"""AVX-VNNI without AVX-512, not of Intel; all else was not measured."""

_SSSE3 = Tuning(lowering="SSSE3", prefill_via_int16=True, int8_peak_sums=2)
# measured on Zen 4 with SSSE3 alone: a step 3 times as fast as by plain vectors, prefill 4.7 times.
"""x86 before AVX2."""

_ARM = Tuning(lowering="plain vectors", cpu_name="Arm", float_x_rows=6)
"""64-bit Arm with 32 registers, without dot products; not measured."""


def _of_intel(record: Tuning) -> Tuning:
    """The record for Intel's CPUs of the same lowering: they want other prefetches, and whole rows."""
    return replace(
        record,
        cpu_name="Intel",
        decode_prefetch=(0, 4096),
        decode_prefetch_by_bits={},
        decode_prefetch_split={},
        decode_prefetch_next_super_block=True,
        # measured on Emerald Rapids (shares of the bandwidth, two threads; before: lines at 0 into the first level, at
        #   3072 into the second, large tiles split in four; 2,048 and 8,192 columns): Q4_K 0.95 to 1.01, 0.88 to 0.96;
        #   Q6_K 0.94 to 1.01, 0.90 to 0.99; Q8_0 0.89 to 1.0, 0.92 to 0.96. Steps gained 8 % (Q4_K_M) and 10 (Q8_0),
        #   with AVX-512 without VNNI 2 to 4, with AVX2 or AVX-VNNI alone 1 to 2 and 0. The second distance may be 2048
        #   to 4096; without the first, or with the super-block after the next, products lose 2 %.
        split_k={},
        # measured on Emerald Rapids: whole rows are as fast as parts, Q4_K of 8,192 columns 3 % faster; steps with
        #   AVX2 or AVX-VNNI alone gain 2 to 3 %.
        float_prefetch_row=4,
        float_prefetch_rows=8,
        float_prefetch_repeats=0,
        # measured on Emerald Rapids: F16 1.07 to 1.12 times as fast, BF16 1.17; eight rows ahead alone 1.04.
        output_prefetch_tiles=64,
        # measured on Granite Rapids: a store to a line in no cache costs decode 2 to 3 % (Q4_K_M), 2 to 4 % (Q8_0);
        #   prefetched to be read, 1 % and nothing are gained.
    )


_INTEL_VNNI = _of_intel(_AVX512_VNNI)
# measured on Granite Rapids: decode_prefetch_level L2 gives 0.86 of the bandwidth, L1 0.82; one thread reads 20
#   GB/s of lines prefetched into the second level, 12 of non-temporal ones.

RECORDS = (
    replace(
        _AVX512_VNNI,
        cpu_name="znver5",
        prefetch_level=PrefetchLevel.L1,
        # measured on Zen 5: Q4_K_M decodes at 0.88 of the bandwidth with L1, 0.80 with L2 (before split-K).
        decode_prefetch_level=PrefetchLevel.NON_TEMPORAL,
        # measured on Zen 5: decode gains 2 to 3 %, as weights then evict nothing from the other caches (70 us between
        #   steps, not 120); models of 8 to 24 MB stay within 2 %. In prefill, eight sequences would be 2 to 3 % slower.
    ),
    replace(
        _AVX512_VNNI,
        cpu_name="znver4",
        decode_rows_winograd=8,
        # measured on Zen 4: steps of 5 and of 8 rows of Q4_K_M 1.14 and 1.15 times as fast; Q4_K compiles a third
        #   longer.
        # decode_prefetch (0, 4096, 0, 4096) as above
        decode_prefetch_level=PrefetchLevel.L2,
        # measured on Zen 4: Q4_K_M decodes at 0.95 of the bandwidth with L2, 0.70 with L1; with NON_TEMPORAL at
        #   0.68 of the speed, Q8_0 at 0.84. Six prefetches beside Q4_K: 2 % slower.
        decode_prefetch_split={6: (8192, 4096, 0)},
        # measured on Zen 4: as fast as four, or 1 % faster.
        split_k={6: (4,)},
        # measured on Zen 4: steps of Q4_K_M take 3 % longer with whole rows of Q6_K; 16 parts take 1.2 times as long.
        #   With whole rows of other formats steps take 1 to 1.5 % less time (Q3_K 1 % more), with four rows of x they
        #   are 1.03 (Q3_K), 1.06 (Q8_0), 1.09 (Q4_0), 1.12 (Q2_K), 1.32 times (Q5_K) as fast.
        prefill_x_ahead=32,
        # measured on Zen 4: prompts of Q4_K_M 2 % faster; 8,192 columns 2 to 5 %, 8 rows ahead 2 % slower than 32, all
        #   lines of 16 rows at once 1 to 3 % slower.
        winograd=True,
        # measured on Zen 4: Q4_K 1.16 to 1.19 times as fast with 256 rows of x, 1.04 with 12; prompts of Q4_K_M 1.12.
        activation_int8_max=120,
        # what Winograd's inner product has room for. It costs a tenth of the accuracy.
    ),
    replace(
        _INTEL_VNNI,
        amx=True,
        decode_rows=8,
        # measured on Emerald Rapids: 8 rows straight from W are 1.8 times as fast as by AMX (Q4_K), 1.5 (Q6_K), 1.04
        #   (Q8_0); 5 rows 1.8, 1.7 and 1.01.
        prefill_tiles=1,
    ),
    _INTEL_VNNI,
    _AVX512_VNNI,
    _of_intel(_AVX_VNNI),
    _AVX_VNNI,
    _of_intel(_AVX512),
    _AVX512,
    _of_intel(_AVX2),
    _AVX2,
    _of_intel(_SSSE3),
    _SSSE3,
    replace(_ARM, lowering="Arm dot product", cpu_name="", split_k=_SPLIT_K, int8_peak_sums=3),  # not measured
    _ARM,
    _of_intel(Tuning(lowering="plain vectors")),
    Tuning(lowering="plain vectors"),
)
"""The records, the most particular first. The last one is for any CPU."""


@cache
def tuning() -> Tuning:
    """The record for the CPU that kernels are compiled for."""
    names = {"", cpu.cpu_name(), "Intel" if cpu.is_intel() else "", "Arm" if cpu.is_arm() else ""}
    lowering, has_amx = cpu.lowering(), cpu.has_amx()
    return next(r for r in RECORDS if r.lowering == lowering and r.cpu_name in names and r.amx <= has_amx)
