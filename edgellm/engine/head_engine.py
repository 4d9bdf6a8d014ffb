"""The engine of a head: it computes pairs of a target's features and tokens, on the target's threads."""

from collections.abc import Callable
from collections.abc import Sequence as Ids
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from edgellm.arch.head import Head
from edgellm.engine.budget import NO_LIMIT, KVBudget
from edgellm.engine.build_program import build_program
from edgellm.engine.closing import drop
from edgellm.engine.device import Logits
from edgellm.engine.feature_encoder import EncoderDevice
from edgellm.engine.feature_rows import FeatureRows
from edgellm.engine.head_sequence import HeadSequence
from edgellm.engine.host_kv_pages import HostKVPages
from edgellm.engine.kv_stats import KVStats
from edgellm.engine.last_states import LastStates, ReadingState
from edgellm.engine.limits import max_batch_rows
from edgellm.engine.model_runner import ModelRunner
from edgellm.engine.outputs import Floats, Outputs, OutputSettings
from edgellm.engine.paged_sequence import PagedSequence
from edgellm.engine.placement import on_cpu
from edgellm.engine.protocol import Segment, check_batch
from edgellm.engine.target_reader import TargetReader
from edgellm.engine.threadpool import ThreadPool
from edgellm.errors import EdgeLLMError
from kquants.jit import Progress

HeadState = HeadSequence | ReadingState
"""The state of a head for the text of one reply."""


class HeadEngine:
    """A head, ready to compute within the turn of its target's engine, whose `pool` it uses.

    It computes pairs as other engines tokens: each row of a segment has features beside its token. A head that reads
    the keys and values of its target reads `pages`, those of its engine. See
    `edgellm.speculation.drafter.DraftEngine`. Raises EdgeLLMError where kernels or memory are missing.
    """

    def __init__(
        self,
        head: Head,
        *,
        kv_type: str,
        ctx: int,
        pool: ThreadPool,
        pages: HostKVPages,
        cache: Path,
        check: Callable[[], None],
        progress: Progress | None = None,
        budget: KVBudget = NO_LIMIT,
    ) -> None:
        self.head, self.ctx, self.vocab, self._pool, self._budget = head, ctx, head.model.vocab, pool, budget
        program = build_program(head.model, kv_type, ctx=ctx)
        self.max_rows = max_batch_rows(program, ctx)
        chained = OutputSettings(hidden=head.chains_normed, residual=not head.chains_normed)
        device: dict[str, Any] = {"rows": self.max_rows, "cache": cache, "progress": progress, "pool": pool}
        shared: dict[str, Any] = device | {"ctx": ctx, "check": check}
        self._own_cells: ModelRunner | None = None  # what computes a head with keys and values of its own
        if head.model.target_attention:
            program = build_program(head.model, kv_type, outputs=chained, ctx=ctx)
            self._runner: ModelRunner | TargetReader = TargetReader(program, head.model, pages=pages, **shared)
        else:
            self._runner = self._own_cells = ModelRunner(
                head.model,
                on_cpu(len(head.model.layers)),
                None,
                kv_type=kv_type,
                threads=pool.count,
                budget=budget,
                page_bytes=program.page_bytes,
                outputs=chained,
                read_ahead=False,
                **shared,
            )
        self._encoder: EncoderDevice | None = None
        try:
            if head.encoder:
                self._encoder = EncoderDevice(head.encoder, **device)
        except BaseException:
            self.close()  # at once, as memory may be short: frames of the error have it
            raise
        self._features = FeatureRows(head.taps, self._encoder.columns if self._encoder else head.model.width)

    def follow(self) -> HeadSequence | LastStates:
        """What follows a new sequence of the target."""
        if not self._own_cells:
            return LastStates(self._features)
        return HeadSequence(self._own_cells.new_sequence, self._features)

    def stop_following(self) -> None:
        """Drop the features that wait, and take no more: the head drafts nothing any more."""
        self._features.end()

    def state_of(self, sequence: PagedSequence) -> HeadState:
        """The state of the head for a reply in a sequence of the target, which it follows."""
        if isinstance(sequence.follower, LastStates):
            return ReadingState(sequence, sequence.follower)
        assert isinstance(sequence.follower, HeadSequence), "the head does not follow this sequence"
        return sequence.follower

    def compute(self, segments: Ids[Segment[Any]]) -> Outputs:
        """Compute up to `max_rows` pairs, of different sequences: logits of wanted rows, and what a draft goes on from.

        Raises Stopped, and EdgeLLMError for token ids or features that the head does not have; in each case the
        sequences hold what they held before.
        """
        self._pool.settle()
        check_batch(self, segments)
        segments = self._encoded(segments)
        for segment in segments:
            wanted = len(segment.tokens), self.head.model.feature_width
            if segment.features is None or segment.features.shape != wanted:
                raise EdgeLLMError(f"a head reads features of shape {list(wanted)} beside tokens")
        return self._runner.run(segments)

    def _encoded(self, segments: Ids[Segment[Any]]) -> Ids[Segment[Any]]:
        """The segments with features in place of the target's states. Rows behind a draft have features already."""
        if not self._encoder:
            return segments
        columns = self._encoder.columns
        states = [s.features for s in segments if s.features is not None and s.features.shape[1:] == (columns,)]
        if not states:
            return segments
        encoded = np.split(self._encoder.encode(np.concatenate(states)), np.cumsum([len(each) for each in states[:-1]]))
        given = {id(before): after for before, after in zip(states, encoded, strict=True)}
        return [replace(s, features=given.get(id(s.features), s.features)) for s in segments]

    def next_features(self, outputs: Outputs) -> Floats:
        """The features of the row behind the last wanted one: float32 [1, width]."""
        states = outputs.hidden if self.head.chains_normed else outputs.residual
        assert states is not None, "the head keeps the state that a draft goes on from"
        return states[-1:]

    def target_logits(self, logits: Logits) -> Logits:
        """The logits of a row by the target's ids; -inf for tokens that the head never drafts."""
        if self.head.tokens is None:
            return logits
        spread = np.full(self.vocab, -np.inf, np.float32)
        spread[self.head.tokens] = logits
        return spread

    def kv_stats(self) -> KVStats | None:
        """The figures of pages of its own; None if it has none.

        Without a limit the budget is what is taken: free memory is in that of the target.
        """
        if not self._own_cells:
            return None
        found = self._own_cells.kv_stats()
        return found if self._budget.limit is not None else replace(found, budget_bytes=found.bytes)

    def evict(self) -> bool:
        """See `DraftEngine`: there is no prefix cache."""
        return False

    def close(self) -> None:
        """Free the memory; the threads go on. No `compute` may be running, of the target either. It can be repeated."""
        self._runner.close()
        drop(self, "head")  # it has tensors of the file
        if self._encoder:
            self._encoder.close()
