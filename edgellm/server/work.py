"""What a request asks for, whatever its dialect."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

_SEEDS = 2**64
Prompt = str | list[int] | list[dict[str, Any]]
"""Text, token ids, or the messages of a conversation."""


@dataclass(frozen=True)
class Work:
    """Replies to generate: `n` for each prompt.

    `options` are those of `Model.stream`, for messages also those of `Chat.reply`. `think` asks a model to think, or
    how much; None leaves it to the model. `keep_alive` is in seconds. `begun` is the beginning of the replies to
    messages.
    """

    model: str | None
    prompts: list[Prompt]
    options: Mapping[str, Any] = field(default_factory=dict)
    n: int = 1
    think: bool | str | None = None
    keep_alive: float | None = None
    begun: str = ""

    @property
    def chat(self) -> bool:
        """Whether the prompts are messages."""
        return any(isinstance(each, dict) for prompt in self.prompts for each in prompt)

    def choices(self) -> Iterator[tuple[int, Prompt, Mapping[str, Any]]]:
        """The index, the prompt and the options of each reply: of several to one prompt each has another seed."""
        for number, prompt in enumerate(self.prompts):
            for other in range(self.n):
                seed = self.options.get("seed")
                seeds = {} if seed is None else {"seed": (seed + other) % _SEEDS}
                yield number * self.n + other, prompt, {**self.options, **seeds}
