"""Sequences, their pages and batches: whatever happened to a sequence, it computes as a fresh one does."""

import base64
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test
from numpy.typing import NDArray

from edgellm import ContextOverflowError, EdgeLLMError, OptionError
from edgellm.arch import describe
from edgellm.engine import budget
from edgellm.engine.build_program import build_program
from edgellm.engine.limits import MAX_EXPERT_ACTIVATION_BYTES, max_batch_rows
from edgellm.engine.native_engine import NativeEngine
from edgellm.engine.paged_sequence import PagedSequence
from edgellm.engine.protocol import Segment, Stopped
from edgellm.gguf import GGUFFile
from edgellm.options import LoadOptions
from edgellm.perf.plan import make_plan
from edgellm.system.folders import cache_folder
from kquants import jit
from kquants.kv_layout import PAGE
from kquants.layout import MAX_EXPERT_BATCH_ROWS, SLICE_ROWS
from support import ROOT
from support.model_file import ModelFile

TINY: dict[str, Any] = {"width": 32, "heads": 2, "kv_heads": 1, "head_dim": 16, "ffn": 48, "layers": 1, "types": "F32"}
CTX = 4 * PAGE
Bits = NDArray[np.uint32]


@pytest.fixture
def engine(model_file: ModelFile) -> Iterator[NativeEngine]:
    """A tiny model on two threads, with a context of four pages."""
    with GGUFFile.open(model_file(**TINY)) as file:
        engine = NativeEngine(file, threads=2, ctx=CTX, kv_type="f16", cache=cache_folder())
        yield engine
        engine.close()


def last_logits(engine: NativeEngine, *parts: tuple[PagedSequence, list[int]]) -> list[Bits]:
    """One batch; the logits after the last token of each part."""
    return list(engine.forward([Segment(s, ids, [len(ids) - 1]) for s, ids in parts]).view(np.uint32))


def histories(engine: NativeEngine, pages: set[int]) -> type[RuleBasedStateMachine]:
    """Sequences that grow, fork, shrink, stop and go away at random, all on one engine; `pages` were used."""
    amount = st.integers(1, PAGE) | st.sampled_from([PAGE - 1, PAGE, PAGE + 1, 1])
    token, which = st.integers(3, 319), st.integers(0, 7)

    class Histories(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            self.live = [engine.new_sequence()]

        def grown(self, i: int, first: int, n: int) -> tuple[PagedSequence, list[int]]:
            """A sequence and what may follow it."""
            sequence = self.live[i % len(self.live)]
            n = min(n, CTX - len(sequence))
            return sequence, [3 + (first + 7 * j) % 317 for j in range(n)]

        def check(self, *parts: tuple[PagedSequence, list[int]]) -> None:
            before = [list(sequence.tokens) for sequence, _ in parts]
            for (sequence, ids), held, bits in zip(parts, before, last_logits(engine, *parts), strict=True):
                assert sequence.tokens == held + ids
                pages.update(sequence.tables[0].ids)
                alone = last_logits(engine, (engine.new_sequence(), held + ids))[0]
                assert np.array_equal(bits, alone)

        @rule(i=which, first=token, n=amount)
        def grow(self, i: int, first: int, n: int) -> None:
            part = self.grown(i, first, n)
            if part[1]:
                self.check(part)

        @precondition(lambda self: len(self.live) > 1)
        @rule(i=which, first=token, n=amount, m=amount)
        def grow_two(self, i: int, first: int, n: int, m: int) -> None:
            parts = self.grown(i, first, n), self.grown(i + 1, first + 1, m)
            if all(ids for _, ids in parts):
                self.check(*parts)

        @rule(i=which)
        def fork(self, i: int) -> None:
            parent = self.live[i % len(self.live)]
            child = parent.fork()
            assert child.tokens == parent.tokens
            self.live = [*self.live, child][-6:]

        @rule(i=which, n=st.integers(0, CTX))
        def trim(self, i: int, n: int) -> None:
            sequence = self.live[i % len(self.live)]
            kept = sequence.tokens[:n]
            assert sequence.trim(n) == len(kept)
            assert sequence.tokens == kept

        @rule(i=which, first=token, n=amount)
        def stop(self, i: int, first: int, n: int) -> None:
            sequence, ids = self.grown(i, first, n)
            held = list(sequence.tokens)
            if ids:
                engine.stop()
                with pytest.raises(Stopped):
                    last_logits(engine, (sequence, ids))
                engine.clear_stop()
            assert sequence.tokens == held

        @rule(i=which)
        def drop(self, i: int) -> None:
            del self.live[i % len(self.live)]
            self.live = self.live or [engine.new_sequence()]

        def teardown(self) -> None:
            self.live.clear()

    return Histories


def test_any_history_computes_as_a_fresh_sequence(engine: NativeEngine) -> None:
    pages: set[int] = set()
    machine = histories(engine, pages)
    run_state_machine_as_test(machine, settings=settings(max_examples=60, stateful_step_count=25, deadline=None))
    # Were references lost, pages would be made anew all the time: at most 6 sequences and a fresh one live at
    # once, with 4 pages each.
    assert len(pages) < 40


def test_pages_are_used_again(engine: NativeEngine) -> None:
    """Page ids are numbered as they are made, so the largest tells how many there are."""
    ids, used = list(range(3, 3 * PAGE)), set()
    for _ in range(20):
        sequence = engine.new_sequence()
        last_logits(engine, (sequence, ids))
        child = sequence.fork()
        last_logits(engine, (child, [5]), (sequence, [6]))
        used.update(sequence.tables[0].ids, child.tables[0].ids)
        assert child.trim(PAGE) == PAGE
    assert used <= set(range(2 * 4 + 2))


def test_a_fork_costs_only_what_differs(engine: NativeEngine) -> None:
    parent = engine.new_sequence()
    last_logits(engine, (parent, list(range(3, 3 + 2 * PAGE + 10))))
    child = parent.fork()
    assert child.tables[0].ids == parent.tables[0].ids
    last_logits(engine, (child, [5]))
    assert child.tables[0].ids[:2] == parent.tables[0].ids[:2]
    assert child.tables[0].ids[2] != parent.tables[0].ids[2]


def test_a_page_reserved_by_a_stop_is_not_shared(engine: NativeEngine) -> None:
    """A page's worth of tokens, then a stopped computation, then a fork: both go on into pages of their own."""
    parent, ids = engine.new_sequence(), list(range(3, 3 + PAGE))
    last_logits(engine, (parent, ids))
    engine.stop()
    with pytest.raises(Stopped):
        last_logits(engine, (parent, [7, 8]))
    engine.clear_stop()
    child = parent.fork()
    last_logits(engine, (parent, [7, 8]), (child, [9, 10]))
    assert np.array_equal(
        last_logits(engine, (parent, [11]))[0], last_logits(engine, (engine.new_sequence(), [*ids, 7, 8, 11]))[0]
    )


@pytest.mark.parametrize("token", [-1, 320, 2**31, -(2**40)])
def test_unknown_tokens_never_reach_a_kernel(engine: NativeEngine, token: int) -> None:
    sequence = engine.new_sequence()
    with pytest.raises(EdgeLLMError, match=f"token id {token} is not in the vocabulary of 320"):
        last_logits(engine, (sequence, [5, token]))
    assert sequence.tokens == []


def test_batches_that_cannot_be(engine: NativeEngine) -> None:
    full, other = engine.new_sequence(), engine.new_sequence()
    last_logits(engine, (full, [5] * CTX))
    with pytest.raises(ContextOverflowError, match=f"1 tokens too long for the context of {CTX}"):
        last_logits(engine, (full, [5]))
    with pytest.raises(EdgeLLMError, match=f"1 to {CTX} rows, not {CTX + 1}"):
        last_logits(engine, (other, [5] * CTX), (engine.new_sequence(), [5]))
    with pytest.raises(EdgeLLMError, match="each sequence once"):
        last_logits(engine, (other, [5]), (other, [5]))
    with pytest.raises(EdgeLLMError, match="not 0"):
        engine.forward([])
    assert (len(full), len(other)) == (CTX, 0)


def test_wanted_rows_come_in_order(engine: NativeEngine) -> None:
    a, b = engine.new_sequence(), engine.new_sequence()
    every = engine.forward([Segment(a, [5, 6, 7], range(3)), Segment(b, [8, 9], range(2))])
    a.trim(0), b.trim(0)
    some = engine.forward([Segment(a, [5, 6, 7], [0, 2]), Segment(b, [8, 9], [1])])
    assert np.array_equal(some, every[[0, 2, 4]])
    assert engine.forward([Segment(a, [5])]).shape == (0, 320)


@pytest.mark.parametrize("wanted", [[3], [-1], [10**6], [1, 0], [0, 0], [0] * 20_000])
def test_logits_of_what_is_not_there_are_refused(engine: NativeEngine, wanted: list[int]) -> None:
    sequence = engine.new_sequence()
    with pytest.raises(EdgeLLMError, match="tokens 0 to 2, each once, in order"):
        engine.forward([Segment(sequence, [5, 6, 7], wanted)])
    assert len(sequence) == 0


def test_sequences_of_another_engine_are_refused(engine: NativeEngine, model_file: ModelFile) -> None:
    with GGUFFile.open(model_file(**TINY)) as file:
        other = NativeEngine(file, threads=1, ctx=CTX, kv_type="f16", cache=cache_folder())
        with pytest.raises(EdgeLLMError, match="belongs to the engine that made it"):
            engine.forward([Segment(other.new_sequence(), [5])])
        other.close()


def test_the_map_lives_as_long_as_the_engine(model_file: ModelFile) -> None:
    file = GGUFFile.open(model_file(**TINY))
    engine = NativeEngine(file, threads=1, ctx=CTX, kv_type="f16", cache=cache_folder())
    before = last_logits(engine, (engine.new_sequence(), [5, 6, 7]))
    file.close()
    assert np.array_equal(last_logits(engine, (engine.new_sequence(), [5, 6, 7])), before)
    engine.close()
    engine.close()
    with pytest.raises(EdgeLLMError, match="was closed"):
        engine.forward([Segment(engine.new_sequence(), [5])])


def test_wide_models_take_fewer_rows_at_once(model_file: ModelFile) -> None:
    wide = {**TINY, "heads": 64, "kv_heads": 64, "head_dim": 512}
    with GGUFFile.open(model_file(**wide)) as file:
        engine = NativeEngine(file, threads=1, ctx=None, kv_type="f16", cache=cache_folder())
        assert 16 <= engine.max_rows < 128
        engine.close()


def test_models_with_experts_take_more_rows_at_once(model_file: ModelFile) -> None:
    rows = {}
    for used in (2, 16):
        options = {**TINY, "ffn": 2048, "arch": "qwen3moe", "experts": 16, "context_length": 4096}
        with GGUFFile.open(model_file(**options, used=used)) as file:
            program = build_program(describe(file), "f16")
            rows[used] = max_batch_rows(program, 4096)
            assert rows[used] * program.row_bytes <= MAX_EXPERT_ACTIVATION_BYTES
            assert max_batch_rows(program, 100) == 100, "no more than the context"
            del program
    assert rows[2] == MAX_EXPERT_BATCH_ROWS > max(rows[16], SLICE_ROWS)


@pytest.mark.parametrize(("free", "fits"), [(1 << 30, False), (64 << 30, True)])
def test_a_model_that_takes_more_memory_than_there_is(
    free: int, fits: bool, model_file: ModelFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Linux would give it, and end the process when it is used: 8 MB of a file ask for 1.5 GB of activations."""
    wide = {**TINY, "width": 1, "heads": 1024, "head_dim": 1024, "ffn": 1}
    monkeypatch.setattr(budget, "allocatable_memory", lambda: free)
    with GGUFFile.open(model_file(**wide)) as file:
        planned = make_plan(file, LoadOptions(threads=1))
        assert planned.activations + planned.scratch > 1 << 30
        if fits:
            NativeEngine(file, threads=1, ctx=None, kv_type="f16", cache=cache_folder()).close()
            return
        with pytest.raises(EdgeLLMError, match=r"^no memory for 1\.\d+ GB of activations, as 1\.07 GB are free"):
            NativeEngine(file, threads=1, ctx=None, kv_type="f16", cache=cache_folder())


def test_trimming_below_nothing_leaves_nothing(engine: NativeEngine) -> None:
    sequence = engine.new_sequence()
    engine.forward([Segment(sequence, [5, 6, 7])])
    assert (sequence.trim(-1), sequence.tokens, sequence.tables[0].ids) == (0, [], [])


def test_a_context_beyond_the_models_is_refused(model_file: ModelFile) -> None:
    with GGUFFile.open(model_file(**TINY)) as file, pytest.raises(OptionError, match="ctx cannot be 513"):
        NativeEngine(file, threads=1, ctx=513, kv_type="f16", cache=cache_folder())


def test_the_interpreter_compiles_in_a_process_of_its_own() -> None:
    """As on machines with many cores, where no other kernel comes before it in the same process."""
    command = [sys.executable, "-m", "kquants.compiler.compile", jit.fingerprint()]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, cwd=ROOT) as child:
        assert child.stdin
        assert child.stdout
        assert child.stderr
        print("run_worker", file=child.stdin, flush=True)
        code = base64.b64decode(child.stdout.readline())
        child.stdin.close()
        assert child.wait() == 0, child.stderr.read()
    assert jit._link(code, "run_worker")
