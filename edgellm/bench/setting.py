"""What a benchmark measures; light, as the command line reads its defaults here."""

from collections.abc import Set
from dataclasses import dataclass, replace

from edgellm.errors import OptionError
from edgellm.options import LoadOptions

OURS, PEER = "edgellm", "llama.cpp"
"""The names of the sides."""


@dataclass(frozen=True)
class Setting:
    """A prompt of `prompt_tokens` and `tokens` decoded steps, each behind `depth` tokens, `rounds` times.

    Decoding is done in `parallel` sequences at once. `against` names the peer that is measured in the same rounds.
    """

    prompt_tokens: int = 512
    tokens: int = 64
    depth: int = 0
    parallel: int = 1
    rounds: int = 5
    kv_type: str = LoadOptions().kv_type
    kv_memory: float | None = LoadOptions().kv_memory
    gpu_layers: int | str = LoadOptions().gpu_layers
    against: str | None = None

    @property
    def longest(self) -> int:
        """The most tokens that a sequence holds: prompt and decoded steps begin at the same depth."""
        return self.depth + max(self.prompt_tokens, self.tokens)

    def fitted(self, context: int, chosen: Set[str]) -> "Setting":
        """The same for a model of such a context: amounts that nobody chose are smaller if need be.

        Raises OptionError where what was chosen does not fit.
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
