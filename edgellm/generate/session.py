"""A session: one engine that many requests share, batch by batch."""

from collections.abc import Callable, Collection
from collections.abc import Sequence as Ids
from contextlib import AbstractContextManager
from typing import TypeVar
from weakref import WeakMethod, ref

from edgellm.engine.kv_stats import KVStats
from edgellm.engine.protocol import TOO_LONG_ADVICE, Engine, Logits, Segment, Sequence, Stopped
from edgellm.errors import ContextOverflowError, EdgeLLMError, PromptError
from edgellm.generate.batching.batcher import Batcher
from edgellm.generate.batching.cancel_flag import CancelFlag
from edgellm.generate.batching.computation import Computation
from edgellm.generate.batching.schedule import SLO_ITL, Schedule
from edgellm.generate.prefix_stats import PrefixStats
from edgellm.generate.prompt_segment import prompt_segment
from edgellm.generate.timing import PrefillProgress
from edgellm.speculation.drafting import Drafting
from edgellm.speculation.session_drafts import SessionDrafts
from edgellm.system.fork import ForkGuard

T = TypeVar("T")


def _weakly(method: Callable[[], T]) -> Callable[[], T]:
    """A method, without a reference to its object: an engine ends as soon as its model is forgotten."""
    found = WeakMethod(method)

    def call() -> T:
        bound = found()
        assert bound, "the caller refers to the object"
        return bound()

    return call


class Session:
    """Prefill and decode for any number of requests, each in a thread of its own. They share the batches of the engine.

    `schedule` is the order of their prompts, `slo_itl` the seconds that a batch may take while others decode. `name` is
    the model's, for messages. From the beginning of `close` on every request raises; `closed` is True at its end.
    `prompts` are those that are computed or whose replies are, by sequence.
    """

    def __init__(self, engine: Engine, name: str, schedule: str = "srpt", slo_itl: float = SLO_ITL) -> None:
        self.engine, self.name, self.origin = engine, name, ForkGuard()
        self.closed = self._closing = False
        self.prefix_stats = PrefixStats()
        # Weak, as Ctrl-C may come before a request can take its sequence out; and no WeakKeyDictionary, which could not
        # be read while another thread changes it.
        self.prompts: dict[ref[Sequence], list[int]] = {}
        self._batcher = Batcher(engine, Schedule(schedule, slo_itl), _weakly(self.check_open), lambda: engine.evict())
        self.drafts = SessionDrafts(self._batcher.step_times)

    @property
    def kv_stats(self) -> KVStats:
        """How many KV pages there are, and what for."""
        return self._batcher.exclusively(self.engine.kv_stats, CancelFlag(self.engine))

    def check_process(self) -> None:
        """Raises EdgeLLMError in a process that was forked from the one that opened the model."""
        self.origin.check(f"the model {self.name}")

    def check_open(self) -> None:
        """Raises EdgeLLMError if the model was closed, and as `check_process` does."""
        self.check_process()
        if self._closing:
            raise EdgeLLMError(f"the model {self.name} was closed; open it again")

    def check_active(self, cancel: CancelFlag) -> None:
        """Raises EdgeLLMError if the model was closed, and Stopped if the request was cancelled."""
        self.check_open()
        if cancel.requested:
            raise Stopped

    def check_fits(self, ids: Ids[int], advice: str = TOO_LONG_ADVICE) -> None:
        """Raises ContextOverflowError if a prompt is longer than the context, PromptError if it is empty."""
        over = len(ids) - self.engine.ctx
        if over > 0:
            problem = f"the prompt of {len(ids):,} tokens is {over:,} too long for the context of {self.engine.ctx:,}"
            raise ContextOverflowError(problem, advice)
        if not ids:
            raise PromptError("the prompt is empty, without even a BOS token to begin with", "give {prompt}")

    def rewind(self, sequence: Sequence, ids: Ids[int], cancel: CancelFlag) -> int:
        """Trim a sequence to its common prefix with `ids`; returns the tokens left. Raises Stopped after `cancel`.

        A sequence that cannot go back to the end of the prefix goes back further.
        """

        def trim() -> int:
            # The last token of a prompt is computed even if it is cached, as its logits are needed.
            left = sequence.trim(min(sequence.shared_prefix(ids), len(ids) - 1))
            sequence.mark()
            return left

        return self.exclusively(trim, cancel)

    def prefill(
        self,
        sequence: Sequence,
        ids: Ids[int],
        cancel: CancelFlag,
        progress: PrefillProgress | None = None,
        ends: Collection[int] = (),
        begun: Callable[[], None] = lambda: None,
    ) -> Logits:
        """Extend a sequence, after `rewind`, to exactly `ids`; returns the logits [vocab] of the last token.

        The sequence can go back later to where `prompt_segment` has marks; `ends` are the tokens that end messages.
        `begun` is called when the first batch begins, in any thread. Raises Stopped after `cancel`; the sequence then
        holds the batches that were complete.
        """
        total, progress = len(ids) - len(sequence), progress or (lambda done, total: None)
        progress(0, total)
        computation = Computation(prompt_segment(sequence, ids, ends), cancel, begun=begun)
        last: Logits = self._compute(computation, lambda done: progress(done, total))[0]
        return last

    def hold(self, sequence: Sequence, length: int, cancel: CancelFlag) -> None:
        """`Sequence.hold`, where the sequence needs it. Raises Stopped after `cancel`."""
        if sequence.needs_marks:
            self.exclusively(lambda: sequence.hold(length), cancel)

    def decode(
        self,
        sequence: Sequence,
        tokens: Ids[int],
        cancel: CancelFlag,
        length: int | None = None,
        drafting: Drafting | None = None,
        on_drafts: Callable[[float], None] | None = None,
    ) -> Logits:
        """The logits [tokens, vocab] after each of the given tokens, behind the first `length` tokens, or behind all.

        All tokens but the first are drafts, which the next call may drop by its `length`. For a single token `drafting`
        computes some; it keeps those whose logits follow. `on_drafts` gets the seconds by which drafts made the batch
        longer. Raises Stopped after `cancel`, and NoMemoryError.
        """
        segment = Segment(sequence, tokens, range(len(tokens)), drafts=len(tokens) - 1)
        step = Computation(segment, cancel, is_step=True, length=length, drafting=drafting, on_drafts=on_drafts)
        return self._compute(step)

    def decode_each(self, sequences: Ids[Sequence], tokens: Ids[int], cancel: CancelFlag) -> list[Logits]:
        """The logits [vocab] after the next token of each of several sequences, which share a batch.

        Raises Stopped after `cancel`, and NoMemoryError; some of the sequences may then have their tokens.
        """
        self.check_process()
        steps = [
            Computation(Segment(sequence, [token], [0]), cancel, is_step=True)
            for sequence, token in zip(sequences, tokens, strict=True)
        ]
        return [logits[0] for logits in self._batcher.compute_all(steps)]

    def forward(self, segment: Segment[Sequence], cancel: CancelFlag) -> Logits:
        """Compute one segment, which wants logits; returns float32 [wanted tokens, vocab].

        Raises Stopped after `cancel`, and EdgeLLMError once the model is closed.
        """
        return self._compute(Computation(segment, cancel))

    def _compute(self, computation: Computation, progress: Callable[[int], None] = lambda done: None) -> Logits:
        self.check_process()  # in a fork, a request of the parent would have its turn for ever
        return self._batcher.compute(computation, progress)

    def exclusively(self, work: Callable[[], T], cancel: CancelFlag) -> T:
        """Run `work` while nothing is computed. Raises Stopped if `cancel` comes before."""
        self.check_process()
        return self._batcher.exclusively(work, cancel)

    def trim_later(self, sequence: Sequence, length: int) -> None:
        """Trim a sequence, if it still exists, before anything else is computed or done exclusively.

        It never waits, as it may be called where Python collects garbage, which may be amid a batch.
        """
        found = ref(sequence)

        def trim() -> None:
            if left := found():
                left.trim(length)

        self.do_first(trim)

    def do_first(self, work: Callable[[], object]) -> None:
        """Have `work` done before anything else is computed or done exclusively. It never waits."""
        self._batcher.do_first(work)

    def decoding(self, request: CancelFlag) -> AbstractContextManager[None]:
        """Count a request as one that decodes: it will ask for its next token soon after it was given one."""
        return self._batcher.arrivals.join(request)

    def rows_beside(self, request: CancelFlag) -> int:
        """The rows of steps that other requests have at present in a batch with a request."""
        return self._batcher.arrivals.decode_rows(request)

    def replies_beside(self, request: CancelFlag) -> int:
        """How many other requests decode at present."""
        return self._batcher.arrivals.decoding(request)

    def prompts_wait(self) -> bool:
        """Whether tokens of prompts will be in the next batch."""
        return self._batcher.prompts_wait()

    def expected_ttft(self, prompt_tokens: int) -> float:
        """Seconds until the first token of a new prompt, behind those that wait; 0.0 until a speed is known."""
        return self._batcher.expected_ttft(prompt_tokens)

    def waits_for_memory(self, sequence: Sequence) -> bool:
        """Whether the request of a sequence waits until others have ended, as memory is short for all."""
        return self._batcher.waits_for_memory(sequence)

    def run_if_idle(self, work: Callable[[], None]) -> None:
        """Run `work` unless a request uses the engine or the model is closed."""
        self._batcher.run_if_idle(lambda: None if self._closing else work())

    def close(self) -> None:
        """Stop all computations and end the engine. If interrupted it can be called again.

        In a forked process it only frees the memory of that process.
        """
        self._closing = True
        if self.origin.in_owner_process():
            self.engine.stop()
            self._batcher.run_at_end(self._end)
        else:
            self._end()

    def _end(self) -> None:
        self.engine.close()
        self.closed = True
