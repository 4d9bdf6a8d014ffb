"""The figures of a batch: how far it is, and what it took."""

from dataclasses import dataclass, field
from time import monotonic

from edgellm.batch.answers import BatchAnswer


@dataclass
class Figures:
    """Figures so far. `kept` requests, of `total`, were answered by earlier runs; `failed` have an error.

    Tokens, and the time since `began`, are of this run. `running_tokens` are those of replies that still run.
    """

    total: int = 0
    kept: int = 0
    answered: int = 0
    failed: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    generated_tokens: int = 0
    running_tokens: int = 0
    began: float = field(default_factory=monotonic)

    @property
    def done(self) -> int:
        """How many requests are answered."""
        return self.kept + self.answered

    @property
    def seconds(self) -> float:
        """The time of this run."""
        return monotonic() - self.began

    @property
    def tokens_per_second(self) -> float:
        """Generated tokens per second of this run."""
        return (self.generated_tokens + self.running_tokens) / max(self.seconds, 1e-9)

    def add(self, answer: BatchAnswer) -> None:
        """Count an answer."""
        self.answered += 1
        self.failed += answer.failed
        self.prompt_tokens += answer.prompt_tokens
        self.cached_tokens += answer.cached_tokens
        self.generated_tokens += answer.generated_tokens
