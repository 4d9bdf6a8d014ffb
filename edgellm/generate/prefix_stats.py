"""How much of the prompts of an open model was computed before."""

from dataclasses import dataclass, field
from threading import Lock


@dataclass
class PrefixStats:
    """`prompts` have begun, `hits` of them with tokens that were cached; and the sums of their tokens."""

    prompts: int = 0
    hits: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    _lock: Lock = field(default_factory=Lock, repr=False, compare=False)

    @property
    def hit_ratio(self) -> float:
        """The share of all tokens of prompts that were not computed again; 0 without any."""
        return self.cached_tokens / self.prompt_tokens if self.prompt_tokens else 0.0

    def add(self, prompt_tokens: int, cached_tokens: int) -> None:
        """Count a prompt."""
        with self._lock:
            self.prompts += 1
            self.hits += cached_tokens > 0
            self.prompt_tokens += prompt_tokens
            self.cached_tokens += cached_tokens
