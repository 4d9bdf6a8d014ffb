"""The protocol of an engine, which `edgellm.engine.native_engine` and `edgellm.llamacpp.engine` implement."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from collections.abc import Sequence as Ids
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from edgellm.engine.kv_stats import KVStats
from edgellm.errors import ContextOverflowError, EdgeLLMError

Logits = NDArray[np.float32]

TOO_LONG_ADVICE = "shorten it, or take a larger context ({ctx}) if the model allows one"
"""The advice for a text that does not fit the context."""


class Stopped(Exception):  # noqa: N818 (it is a signal, not an error)
    """`Engine.stop` ended a computation; the sequences are as they were before it."""


def common_prefix(one: Ids[int], other: Ids[int]) -> int:
    """The length of the longest common prefix of two lists, or of two tuples."""
    low, high = 0, min(len(one), len(other))
    while low < high:  # by bisection, as Python compares slices faster than items in a loop
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


class Sequence(ABC):
    """The state of one sequence of tokens; each engine has its own class.

    `tokens` are exactly those whose state was computed: a stopped computation adds none. With `goes_back` it goes back
    to any length; without, as with windows, to marked lengths and those near its end; with `needs_marks` to marked
    lengths alone, as it must with recurrent layers. `diverged_at` is the first token of its prompt that differs from
    the conversation before. `embeddings` are those that some tokens had in place of their own, float32 [width] by cell.
    """

    needs_marks = False
    goes_back = True

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.diverged_at: int | None = None
        self.embeddings: dict[int, NDArray[np.float32]] = {}

    def __len__(self) -> int:
        return len(self.tokens)

    @abstractmethod
    def fork(self) -> Self:
        """Another sequence with the same tokens, sharing their state."""

    @abstractmethod
    def trim(self, n: int) -> int:
        """Keep the first `n` tokens, or fewer if the state cannot go back to `n`; return how many are left."""

    def reach(self, n: int) -> int:
        """How many tokens `trim(n)` would leave."""
        return min(n, len(self))

    def mark(self) -> None:  # noqa: B027 (most states go back to any length)
        """Keep what is needed to go back to the present length later, as far as memory is given to that."""

    @property
    def marked(self) -> Ids[int]:
        """The lengths that are marked for longer than to compute the last prompt's end again."""
        return ()

    def hold(self, n: int) -> None:  # noqa: B027 (most states go back to any length)
        """Keep what is needed to go back to `n` tokens, until `hold` is called again or a prompt follows.

        `n` is the present length, or that before a draft of the last segment.
        """

    def pause(self) -> None:
        """Have no tokens any more, so that others can have the memory. The prefix cache keeps what it has room for."""
        self.trim(0)

    def resume(self, ids: Ids[int]) -> None:  # noqa: B027 (not all prefix caches keep what was paused)
        """After `pause`, have the longest beginning of `ids` that the prefix cache holds, but their last token."""

    def shared_prefix(self, tokens: Ids[int]) -> int:
        """The length of the longest prefix of `tokens` that this sequence holds."""
        return common_prefix(self.tokens, list(tokens))


S_co = TypeVar("S_co", covariant=True)


@dataclass(frozen=True)
class Segment(Generic[S_co]):
    """Tokens that continue one sequence; `wanted` are the indices of those whose logits are wanted.

    `embeddings`: float32 [width] by index, in place of the embedding of the token there. The sequence keeps what it
    needs to end again behind each of the tokens of indices `marks`, as `Sequence.mark` does; behind that of
    `retry_mark`, until another segment has one; and before each of the last `drafts` tokens, until the next segment.
    `features`: float32 [tokens, width], those that a head reads beside each token.
    """

    sequence: S_co
    tokens: Ids[int]
    wanted: Ids[int] = ()
    embeddings: Mapping[int, NDArray[np.float32]] = field(default_factory=dict)
    marks: Ids[int] = ()
    retry_mark: int | None = None
    drafts: int = 0
    features: NDArray[np.float32] | None = None

    def part(self, start: int, stop: int) -> "Segment[S_co]":
        """The segment of the tokens of indices `start` … `stop` - 1. One with drafts has no parts but the whole."""
        if (start, stop) == (0, len(self.tokens)):
            return self
        assert not self.drafts, "drafts are computed with the token before them"
        part = range(start, stop)
        return Segment(
            self.sequence,
            self.tokens[start:stop],
            [i - start for i in self.wanted if i in part],
            {i - start: each for i, each in self.embeddings.items() if i in part},
            [i - start for i in self.marks if i in part],
            self.retry_mark - start if self.retry_mark is not None and self.retry_mark in part else None,
            features=None if self.features is None else self.features[start:stop],
        )


class Bounds(Protocol):
    """The bounds of an engine's batches; see `Engine`."""

    ctx: int
    vocab: int
    max_rows: int


class Engine(Protocol):
    """A model, ready to compute. Not for several threads at once; only `stop` may be called from any.

    `ctx` is the most tokens that a sequence may hold, `vocab` the width of the logits, `max_rows` the most tokens
    that one `forward` computes.
    """

    ctx: int
    vocab: int
    max_rows: int

    @property
    def threads(self) -> int:
        """The number of threads that compute."""

    @property
    def batch_invariant(self) -> bool:
        """Whether a row's logits have the same bits however tokens are split into batches.

        If so, a trimmed sequence continues with the same bits as one that never had more tokens.
        """

    @property
    def devices(self) -> list[dict[str, Any]]:
        """Of each device: name, blocks (a mixer and a feed-forward a layer, and the head), bytes of weights."""

    def new_sequence(self) -> Sequence:
        """An empty sequence of this engine; segments may hold no others."""

    def begin(self, ids: Ids[int]) -> Sequence:
        """A sequence for a prompt, with the longest beginning of it that the prefix cache holds, but its last token."""

    def retire(self, sequence: Any) -> None:
        """Leave a sequence to the prefix cache; it is not used any more. Any thread may call this at any time."""

    def evict(self) -> bool:
        """Free what was used least recently in the prefix cache; False if there is nothing that no one uses."""

    def kv_stats(self) -> KVStats:
        """How many KV pages there are, and what for; not while `forward` runs."""

    def forward(self, segments: Ids[Segment[Any]]) -> Logits:
        """Compute up to `max_rows` rows, of different sequences; return float32 [wanted rows, vocab].

        Each sequence then holds its new tokens. Raises Stopped, ContextOverflowError, and EdgeLLMError for token
        ids that the model does not have; in each case the sequences hold what they held before.
        """

    def stop(self) -> None:
        """Stop the running `forward`, or the next: it raises Stopped until `clear_stop`."""

    def clear_stop(self) -> None:
        """Forget an earlier `stop`; not while `forward` runs."""

    def close(self) -> None:
        """End threads and processes, and free memory. No `forward` may be running. Further calls do nothing."""


def check_batch(engine: Bounds, segments: Ids[Segment[Any]]) -> None:
    """Check a batch before anything of it is computed.

    Raises ContextOverflowError, and EdgeLLMError for unknown token ids, too many rows, indices of tokens that a segment
    does not have, or a sequence given twice.
    """
    for segment in segments:
        _check_segment(engine, segment)
    rows = sum(len(s.tokens) for s in segments)
    if not 0 < rows <= engine.max_rows:
        raise EdgeLLMError(f"a batch has 1 to {engine.max_rows} rows, not {rows}; compute it in parts")
    if len({id(s.sequence) for s in segments}) < len(segments):
        raise EdgeLLMError("a batch holds each sequence once; join its tokens in one segment")


def _check_segment(engine: Bounds, segment: Segment[Any]) -> None:
    # Compiled code looks up tokens without a check of bounds.
    for token in segment.tokens:
        if not 0 <= token < engine.vocab:
            raise EdgeLLMError(f"token id {token} is not in the vocabulary of {engine.vocab}")
    if not all(0 <= i < j for i, j in pairwise([*segment.wanted, len(segment.tokens)])):
        raise EdgeLLMError(f"logits can be wanted of tokens 0 to {len(segment.tokens) - 1}, each once, in order")
    retry = () if segment.retry_mark is None else (segment.retry_mark,)
    if not all(0 <= i < len(segment.tokens) for i in (*segment.marks, *retry)):
        raise EdgeLLMError(f"marks can be behind tokens 0 to {len(segment.tokens) - 1} of a segment")
    if not 0 <= segment.drafts <= len(segment.tokens):
        raise EdgeLLMError(f"a segment of {len(segment.tokens)} tokens cannot have {segment.drafts} drafts")
    over = len(segment.sequence) + len(segment.tokens) - engine.ctx
    if over > 0:
        raise ContextOverflowError(
            f"the text is {over} tokens too long for the context of {engine.ctx}", TOO_LONG_ADVICE
        )
