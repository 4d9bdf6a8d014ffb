"""What the model does at one moment, as the instruments show it."""

from dataclasses import dataclass
from enum import Enum

from edgellm.generate.stats import Live


class Phase(Enum):
    """The phase of the worker; the values are the words of the status line."""

    CLOSED = "no model"
    LOADING = "loading"
    READY = "ready"
    PREFILL = "reading"
    DECODE = "writing"


@dataclass(frozen=True, slots=True)
class Activity:
    """The state of the worker and the figures of a reply (`live`), which stay until the next reply begins.

    `progress` says what is loaded or compiled. `context` is the size of the context in tokens, 0 if unknown, `counted`
    the tokens of the conversation that are known without `live`. The last reply did not see the first `dropped_tokens`
    tokens and `dropped_messages` messages, by the policy `overflow`. Of the model's `blocks` a GPU computes
    `gpu_blocks`.
    `uses` names what replies follow or may call: a schema or tools; empty for free replies.
    `server` is the host that computes, empty for this machine.
    Of its `weights`, in bytes, `resident` were in memory when the last reply ended; None if unknown.
    `drafter` is the model or head that drafts, empty without one.
    """

    phase: Phase = Phase.CLOSED
    model: str = ""
    progress: str = ""
    live: Live | None = None
    context: int = 0
    counted: int = 0
    overflow: str = "stop"
    dropped_tokens: int = 0
    dropped_messages: int = 0
    threads: int = 0
    blocks: int = 0
    gpu_blocks: int = 0
    weights: int = 0
    resident: int | None = None
    uses: str = ""
    server: str = ""
    drafter: str = ""

    @property
    def knows_context(self) -> bool:
        """Whether it is known how full the context is; a server may tell neither its size nor the tokens."""
        return self.context > 0 and not (self.live and self.live.stats.estimated)

    @property
    def used(self) -> int:
        """The tokens of the context that are taken."""
        return self.live.context_used if self.live else min(self.counted, self.context)
