"""What a benchmark measures. The command line reads its defaults here, so imports are few."""

from collections.abc import Set
from dataclasses import dataclass, replace

from edgellm.errors import OptionError
from edgellm.options import LoadOptions

LOAD_NAMES = ("kv_type", "kv_memory", "gpu_layers", "cpu_moe", "n_cpu_moe")
"""The options of a model that a benchmark has as well, and opens it with."""

OURS, BASELINE = "edgellm", "llama.cpp"
"""The names of the two sides."""


@dataclass(frozen=True)
class BenchOptions:
    """In each of `rounds` rounds, a prompt of `prompt_tokens` and `tokens` decode steps, each after `depth` tokens.

    A decode step computes one token in each of `parallel` sequences. `against` names the baseline engine that is
    measured in the same rounds.
    """

    prompt_tokens: int = 512
    tokens: int = 64
    depth: int = 0
    parallel: int = 1
    rounds: int = 5
    kv_type: str = LoadOptions().kv_type
    kv_memory: float | None = LoadOptions().kv_memory
    gpu_layers: int | str = LoadOptions().gpu_layers
    cpu_moe: bool = LoadOptions().cpu_moe
    n_cpu_moe: int | None = LoadOptions().n_cpu_moe
    against: str | None = None

    @property
    def longest(self) -> int:
        """The most tokens that a sequence holds: prompt and decode steps begin at the same depth."""
        return self.depth + max(self.prompt_tokens, self.tokens)

    def fit_to_context(self, context: int, chosen: Set[str]) -> "BenchOptions":
        """These options for a model with this context length: defaults are reduced if need be, `chosen` values not.

        Raises OptionError if a chosen value does not fit.
        """
        room = context - self.depth
        if room < 1:
            raise OptionError(
                f"option depth cannot be {self.depth}: "
                f"give at most {context - 1}, as the model's context has {context:,} tokens"
            )
        amounts = {name: getattr(self, name) for name in ("prompt_tokens", "tokens")}
        fits = replace(self, **{name: n if name in chosen else min(n, room) for name, n in amounts.items()})
        given = {"-p": fits.prompt_tokens, "-n": fits.tokens}
        if too_many := " and ".join(option for option, n in given.items() if n > room):
            left = f"what the model's context of {context:,} tokens has left behind {self.depth} (-d)"
            raise OptionError(
                f"{too_many} cannot be more than {room}: that is {left if self.depth else 'the context of the model'}"
            )
        return fits
