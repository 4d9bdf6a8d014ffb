"""Replies with calls in the words of a test, and two functions that they call."""

from collections.abc import Callable
from typing import Any

import pytest

from edgellm import Model
from edgellm.generate.token_chooser import TokenChooser

SIZES: dict[str, Any] = {"width": 64, "heads": 2, "kv_heads": 1, "head_dim": 32, "ffn": 96, "types": "F32"}
Write = Callable[..., None]


def weather(city: str, days: int = 1) -> str:
    """Get the weather."""
    if city == "Atlantis":
        raise LookupError("no such\ncity")
    return f"{city}: sun for {days}"


def clock() -> dict[str, Any]:
    """Tell the time."""
    return {"hour": 12, "zone": "Zürich"}


def call(name: str, arguments: str = "{}") -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


def result(number: int, name: str, content: str) -> dict[str, str]:
    return {"role": "tool", "tool_call_id": f"call{number:05}", "name": name, "content": content}


ROME, CLOCK = call("weather", '{"city": "Rome"}'), call("clock")
ATLANTIS = call("weather", '{"city": "Atlantis", "days": 2}')


def scripted_replies(patch: pytest.MonkeyPatch) -> Callable[[Model], Write]:
    """`scripted_replies(patch)(model)(*replies)`: the model writes these texts or tokens next, and ends each reply.

    What a guide forces is not drawn, but has its place in the reply.
    """
    replies = list[list[int]]()
    begun = list[tuple[int, list[int]]]()  # of the current reply: how many tokens come before it, and its own
    read = TokenChooser.read

    def begin(chooser: TokenChooser, prompt: list[int]) -> None:
        begun[:] = [(len(prompt), replies.pop(0))]
        read(chooser, prompt)

    def draw(chooser: TokenChooser, weights: Any, position: int, proposal: Any) -> int:
        ((start, tokens),) = begun
        return tokens[position - start]

    patch.setattr(TokenChooser, "read", begin)
    patch.setattr(TokenChooser, "_draw", draw)

    def of_model(model: Model) -> Write:
        assert model.tokenizer.eos_id is not None
        end = model.tokenizer.eos_id

        def set_replies(*given: str | list[int]) -> None:
            for reply in given:
                ids = model.tokenizer.encode(reply, parse_special=True) if isinstance(reply, str) else reply
                replies.append([*ids, end])

        return set_replies

    return of_model
