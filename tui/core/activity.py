"""What the model is doing at one moment, as the instruments show it."""

from dataclasses import dataclass
from enum import Enum

from edgellm.generate.stats import Live


class Phase(Enum):
    """What the worker does; the values are what the status line says."""

    CLOSED = "no model"
    LOADING = "loading"
    READY = "ready"
    PREFILL = "reading"
    DECODE = "writing"


@dataclass(frozen=True, slots=True)
class Activity:
    """One look at the worker. Figures of a reply are those of its session (`live`), kept until the next one begins.

    `progress` says what is being loaded or compiled. `context` is the most tokens that a conversation may have,
    `counted` how many this one had before its model wrote anything in it. Of them the last reply does not see
    `dropped_tokens`, nor `dropped_messages` from the first one on, as the policy `overflow` has it. `gpu_blocks` of
    `blocks` are computed by a GPU.
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

    @property
    def used(self) -> int:
        """How many tokens of the context are taken."""
        return self.live.context_used if self.live else min(self.counted, self.context)
