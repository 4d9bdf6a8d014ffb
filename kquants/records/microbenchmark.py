"""Arguments of the kernels that measure the machine."""

from typing import NamedTuple

from kquants.records.header import Word


class ReadSumOp(NamedTuple):
    """sums[i] = the sum of all int32 in section i of the memory, without carry."""

    address: Word
    section_bytes: Word
    """A multiple of 256."""
    sums: Word
    """int32, one for each section."""


class Int8PeakOp(NamedTuple):
    """sums[i] = the sum over `rounds` rounds of PEAK_PRODUCTS products of 64 int8."""

    rounds: Word
    factors: Word
    """64 int8, then 64 int8 below 16 for each sum that a thread keeps: see `kquants.microbenchmark`."""
    sums: Word
    """int32, one for each unit of work."""
