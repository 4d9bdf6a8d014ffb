"""Logits of an engine as bits, computed in every way that must not change them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from edgellm.engine.batch import Segment
from edgellm.engine.native_engine import NativeEngine
from edgellm.engine.paged_sequence import PagedSequence
from edgellm.gguf import GGUFFile
from edgellm.system.folders import cache_folder
from support.logits_bits import Bits


@contextmanager
def opened(path: Path, threads: int = 2, kv_type: str = "f16", ctx: int = 256) -> Iterator[NativeEngine]:
    """The engine of a model file."""
    with GGUFFile.open(path) as file:
        engine = NativeEngine(file, threads=threads, ctx=ctx, kv_type=kv_type, cache=cache_folder())
        yield engine
        engine.close()


def forward(engine: NativeEngine, *parts: tuple[PagedSequence, list[int]]) -> list[Bits]:
    """One batch; the logits of every row, (n, vocab) for each part."""
    logits = engine.forward([Segment(sequence, ids, range(len(ids))) for sequence, ids in parts])
    ends = np.cumsum([len(ids) for _, ids in parts])
    return np.split(logits.view(np.uint32), ends[:-1])


def fresh(engine: NativeEngine, ids: list[int]) -> Bits:
    """The logits of `ids` alone, computed at once."""
    return forward(engine, (engine.new_sequence(), ids))[0]


def extend(engine: NativeEngine, sequence: PagedSequence, ids: list[int], chunk: int) -> Bits:
    """The logits of `ids` after `sequence`, in chunks."""
    parts = [ids[i : i + chunk] for i in range(0, len(ids), chunk)]
    return np.concatenate([forward(engine, (sequence, part))[0] for part in parts])


def neighbours(engine: NativeEngine, ids: list[int], others: list[int]) -> Bits:
    """The logits of `ids`, in batches with another sequence that is ahead of it or behind it."""
    ours, theirs = engine.new_sequence(), engine.new_sequence()
    got = []
    third = len(ids) // 3
    for n, m in ((third, 0), (1, third), (5, 1), (1, 1), (third, third), (len(ids), third)):
        parts = [(ours, ids[len(ours) :][:n]), (theirs, others[len(theirs) :][:m])]
        got.append(forward(engine, *[part for part in parts if part[1]])[0])
    return np.concatenate(got)


def forked(engine: NativeEngine, ids: list[int], others: list[int], at: int) -> Bits:
    """The logits of `ids` from `at` on, after a fork there whose other branch goes on with `others`, both in turn."""
    parent = engine.new_sequence()
    extend(engine, parent, ids[:at], 64)
    child = parent.fork()
    forward(engine, (parent, others[at : at + 30]))
    first = forward(engine, (child, ids[at : at + 9]))[0]
    rest = forward(engine, (child, ids[at + 9 :]), (parent, others[at + 30 :][:20]))[0]
    return np.concatenate([first, rest])


def trimmed(engine: NativeEngine, ids: list[int], mark: int, to: int) -> tuple[int, Bits]:
    """What a trim of `ids` to `to` tokens reached, after a checkpoint at `mark`; the logits of `ids` from there on."""
    sequence = engine.new_sequence()
    extend(engine, sequence, ids[:mark], 50)
    sequence.mark()
    extend(engine, sequence, ids[mark:], 50)
    reached = sequence.trim(to)
    return reached, extend(engine, sequence, ids[reached:], 33)
