"""Sums in memory, to which the products of more columns are added, and in the end those of earlier parts of a row."""

from collections.abc import Callable

from llvmlite import ir

from kquants.quads import Value
from kquants.simd import F32, all_f32, at, load, store_vectors

LoadIf = Callable[[ir.IRBuilder, Value, Value, float], Value]
"""The 16 float32 at an address if a condition holds, else a number in all lanes. The address may be read in any case,
and is a multiple of 64."""


def load_by_branch(b: ir.IRBuilder, condition: Value, address: Value, other: float) -> Value:
    """`LoadIf` as LLVM likes it, which makes a branch of this on x86: with a mask prompts are read 2 to 3 % slower."""
    return b.select(condition, load(b, address, F32.vector), all_f32(other))


def so_far(b: ir.IRBuilder, y: Value, fresh: Value, load_if: LoadIf) -> Value:
    """0 if `fresh` is 1, as what lies at y is of other sums; if it is 0, what lies there."""
    return load_if(b, b.icmp_signed("==", fresh, fresh.type(0)), y, 0.0)


def store_sum(b: ir.IRBuilder, y: Value, after: Value, added: Value, to: Value, load_if: LoadIf) -> None:
    """Store `after` at `to` bytes beyond y; unless `added` is 0, with what lies `added` bytes beyond y added to it."""
    # Whatever is added to -0 stays what it is; added to 0, -0 would not.
    others = load_if(b, b.icmp_signed("!=", added, added.type(0)), at(b, y, added), -0.0)
    store_vectors(b, at(b, y, to), [b.fadd(others, after)])
