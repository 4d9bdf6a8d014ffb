"""The text of a reply: what a model thinks, and what it answers, in the form that `edgellm.text.thought` reads."""

from edgellm.remote.failures import ServerError
from edgellm.text.thought import CLOSING, OPENING

MAX_CHARACTERS = 16 << 20


class ReplyText:
    """Grows by pieces of thoughts and answers. `thinking`: the model thinks at its end.

    `answer_start` is where the answer begins, None before it does.
    """

    def __init__(self, host: str) -> None:
        self._host = host
        self._pieces: list[str] = []
        self._length = 0
        self.thinking = False
        self.answer_start: int | None = None

    def __str__(self) -> str:
        return "".join(self._pieces)

    def think(self, thought: str) -> str:
        """Add a piece of a thought; returns what the text grows by. Behind the answer it is text of the answer.

        Raises ServerError for a reply of more than MAX_CHARACTERS, as all methods.
        """
        begins = bool(thought) and not self.thinking and self.answer_start is None
        self.thinking = self.thinking or begins
        return self._grow(f"{OPENING if begins else ''}{thought}")

    def end_thought(self) -> str:
        """End the thought, if there is one; returns what the text grows by."""
        ended, self.thinking = self.thinking, False
        return self._grow(CLOSING if ended else "")

    def say(self, answer: str) -> str:
        """Add a piece of the answer; returns it."""
        if self.answer_start is None:
            self.answer_start = self._length
        return self._grow(answer)

    def _grow(self, grown: str) -> str:
        self._length += len(grown)
        if self._length > MAX_CHARACTERS:
            raise ServerError(f"{self._host} sends more than any reply has; the reply ends here")
        self._pieces.append(grown)
        return grown
