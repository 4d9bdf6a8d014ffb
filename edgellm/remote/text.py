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

    def add(self, thought: str, answer: str) -> str:
        """Add a piece; returns what the text grows by. A thought behind the answer is text of the answer.

        Raises ServerError for a reply of more than MAX_CHARACTERS.
        """
        grown = ""
        if thought and not self.thinking and self.answer_start is None:
            self.thinking, grown = True, OPENING
        grown += thought
        if answer:
            grown += self._end_thought()
            if self.answer_start is None:
                self.answer_start = self._length + len(grown)
            grown += answer
        return self._grow(grown)

    def end(self) -> str:
        """End a thought that no answer follows, such as one before calls; returns what the text grows by."""
        return self._grow(self._end_thought())

    def _end_thought(self) -> str:
        ended, self.thinking = self.thinking, False
        return CLOSING if ended else ""

    def _grow(self, grown: str) -> str:
        self._length += len(grown)
        if self._length > MAX_CHARACTERS:
            raise ServerError(f"{self._host} sends more than any reply has; the reply ends here")
        self._pieces.append(grown)
        return grown
