"""What came of a request."""

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """How a request ended."""

    COMPLETED = "completed"
    REFUSED = "refused"
    """The server had no room: HTTP status 429 or 503."""
    FAILED = "failed"
    UNFINISHED = "unfinished"
    """It was cancelled, as the run ended before it."""


@dataclass(frozen=True)
class ReplyCounts:
    """Numbers of tokens of a complete reply, as the engine or the server counts them."""

    prompt_tokens: int
    cached_tokens: int
    tokens: int


@dataclass(frozen=True)
class Outcome:
    """A request and the times of its reply, in seconds after the run began.

    `arrival_s` is when the request should have been sent; latencies count from there, also if it was sent later.
    `pieces_s` are the times at which pieces of the reply came. A model in this process gives a piece for each token.
    A server may send several tokens in one piece. `wanted` is the number of tokens asked for.
    """

    status: Status
    arrival_s: float
    sent_s: float
    ended_s: float
    pieces_s: tuple[float, ...]
    wanted: int
    reply: ReplyCounts | None = None
    error: str = ""

    @property
    def ttft_s(self) -> float | None:
        """Time to first token; None if none came."""
        return self.pieces_s[0] - self.arrival_s if self.pieces_s else None

    @property
    def tpot_s(self) -> float | None:
        """Time per output token: the mean time of each token after the first; 0 for a single token.

        None if the reply is not complete. A piece of several tokens counts as these tokens.
        """
        if not self.reply or not self.pieces_s:
            return None
        later = self.reply.tokens - 1
        return (self.pieces_s[-1] - self.pieces_s[0]) / later if later > 0 else 0.0

    def meets(self, slo_ttft: float, slo_itl: float) -> bool:
        """The reply is complete, its TTFT is at most `slo_ttft` and its TPOT at most `slo_itl`, in seconds."""
        ttft, tpot = self.ttft_s, self.tpot_s
        return ttft is not None and tpot is not None and ttft <= slo_ttft and tpot <= slo_itl
