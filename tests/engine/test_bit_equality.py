"""A token's logits have the same bits for any chunks, other rows in the batch, caches, forks and threads."""

import numpy as np
import pytest

from edgellm.engine.batch import Segment
from edgellm.engine.paged_sequence import PagedSequence
from support.engine_bits import extend, forward, fresh, opened
from support.logits_bits import IDS, Bits, logits_bits
from support.make_gguf import RECIPES
from support.model_file import ModelFile

OTHER = [1, *map(int, np.random.default_rng(3).integers(3, 320, 149))]
KV_TYPES = {"F16": ("f16", "f32"), "Q8_0": ("q8_0",), "Q4_K": ("f16", "f32", "q8_0")}
MODELS = [(recipe, kv) for recipe in ("F16", "Q8_0", "Q4_K") for kv in KV_TYPES[recipe]]


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("recipe", RECIPES)
def test_chunks_and_threads_change_no_bit(model_file: ModelFile, recipe: str, threads: int) -> None:
    path = model_file(types=recipe)
    whole = logits_bits(path, 2, None)
    # Several threads share the ops of one row, of few and of many alike.
    for chunk in (1, 2, 3, 4, 7, 9, 64, None) if threads == 1 else (1, 4, 7, 64, None):
        assert np.array_equal(logits_bits(path, threads, chunk), whole), f"chunks of {chunk}"


@pytest.mark.parametrize("value_dim", [128, 64])
def test_chunks_change_no_bit_with_f32_pages(model_file: ModelFile, value_dim: int) -> None:
    path = model_file(types="Q4_K", heads=4, kv_heads=1, head_dim=128, value_dim=value_dim)
    whole = logits_bits(path, 1, None, "f32")
    assert np.array_equal(logits_bits(path, 2, 7, "f32"), whole)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize(("recipe", "kv_type"), MODELS)
def test_other_rows_of_a_batch_change_no_bit(model_file: ModelFile, recipe: str, kv_type: str, threads: int) -> None:
    """Three sequences, prefill and decode mixed, in batches of 2 (decode kernels) to 87 rows."""
    with opened(model_file(types=recipe), threads, kv_type) as engine:
        a, b, c = engine.new_sequence(), engine.new_sequence(), engine.new_sequence()
        got: dict[PagedSequence, list[Bits]] = {a: [], b: [], c: []}
        source = {a: IDS, b: OTHER, c: IDS[::-1]}
        for batch in ({a: 50}, {a: 1, b: 70}, {b: 1, a: 1}, {c: 79, a: 7, b: 1}, {c: 1, b: 1, a: 1}, {a: 64, c: 2}):
            parts = [(s, source[s][len(s) : len(s) + n]) for s, n in batch.items()]
            for sequence, logits in zip(batch, forward(engine, *parts), strict=True):
                got[sequence].append(logits)
        for sequence, logits in got.items():
            assert np.array_equal(np.concatenate(logits), fresh(engine, source[sequence][: len(sequence)]))


@pytest.mark.parametrize(("recipe", "kv_type"), MODELS)
def test_what_else_is_wanted_changes_no_bit(model_file: ModelFile, recipe: str, kv_type: str) -> None:
    """The last layer works on the tokens whose logits are wanted alone: none, some and all of a batch."""
    with opened(model_file(types=recipe), 2, kv_type) as engine:
        a, b, c = (engine.new_sequence() for _ in range(3))
        whole = {a: fresh(engine, IDS), b: fresh(engine, OTHER), c: fresh(engine, IDS[::-1])}
        source = {a: IDS, b: OTHER, c: IDS[::-1]}
        first = {a: (60, []), b: (20, [])}
        second = {a: (30, [0, 1, 2, 17, 29]), b: (1, [0]), c: (100, [*range(40, 77), 99])}
        third = {a: (1, [0]), b: (1, []), c: (1, [0])}
        for batch in (first, second, third, {a: (40, range(40)), b: (90, [89])}):
            segments, wanted = list[Segment[PagedSequence]](), list[Bits]()
            for sequence, (n, rows) in batch.items():
                start = len(sequence)
                segments.append(Segment(sequence, source[sequence][start : start + n], rows))
                wanted.append(whole[sequence][[start + i for i in rows]])
            assert np.array_equal(engine.forward(segments).view(np.uint32), np.concatenate(wanted))


@pytest.mark.parametrize(("recipe", "kv_type"), MODELS)
def test_a_cached_prefix_changes_no_bit(model_file: ModelFile, recipe: str, kv_type: str) -> None:
    with opened(model_file(types=recipe), 2, kv_type) as engine:
        whole, sequence = fresh(engine, IDS), engine.new_sequence()
        extend(engine, sequence, IDS[:90] + OTHER[90:], 64)
        for prefix, chunk in ((90, 7), (64, 64), (63, 1), (65, 60), (1, 149)):
            assert sequence.trim(prefix) == prefix
            assert sequence.shared_prefix(IDS) == prefix
            assert np.array_equal(extend(engine, sequence, IDS[prefix:], chunk), whole[prefix:])


@pytest.mark.parametrize("at", [64, 100])
@pytest.mark.parametrize(("recipe", "kv_type"), MODELS)
def test_forks_change_no_bit(model_file: ModelFile, recipe: str, kv_type: str, at: int) -> None:
    """Forked at the end of a page or amid one, both branches go on, first in turn and then in one batch."""
    with opened(model_file(types=recipe), 2, kv_type) as engine:
        ours, theirs = IDS, IDS[:at] + OTHER[at:]
        parent = engine.new_sequence()
        extend(engine, parent, ours[:at], 64)
        child = parent.fork()
        first = forward(engine, (child, theirs[at : at + 5]))[0]
        second = forward(engine, (parent, ours[at : at + 3]))[0]
        rest = forward(engine, (parent, ours[at + 3 :]), (child, theirs[at + 5 :]))
        assert np.array_equal(np.concatenate([second, rest[0]]), fresh(engine, ours)[at:])
        assert np.array_equal(np.concatenate([first, rest[1]]), fresh(engine, theirs)[at:])


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_bits_are_those_of_real_logits(model_file: ModelFile, recipe: str) -> None:
    logits = logits_bits(model_file(types=recipe), 2, None).view(np.float32)
    assert np.isfinite(logits).all()
    assert len(np.unique(logits, axis=0)) == len(logits)
    assert np.ptp(logits, axis=1).min() > 2
