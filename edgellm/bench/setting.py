"""What a benchmark measures; light, as the command line reads its defaults here."""

from dataclasses import dataclass

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
    gpu_layers: int | str = LoadOptions().gpu_layers
    against: str | None = None

    @property
    def longest(self) -> int:
        """The most tokens that a sequence holds: prompt and decoded steps begin at the same depth."""
        return self.depth + max(self.prompt_tokens, self.tokens)
