"""A guide that begins where the model chooses to."""

from copy import copy

from edgellm.guides.guide import Guide, Mask


class OpenedGuide:
    """Free text until one of the tokens `openers`, with which `answer` begins. See `edgellm.guides.guide.Guide`."""

    begun, complete, ended = False, True, False

    def __init__(self, answer: Guide, openers: frozenset[int]) -> None:
        self._answer, self._openers, self._opened = answer, openers, False

    def allowed(self) -> Mask | None:
        """The tokens that may come next; None for all, as long as the text is free."""
        return self._answer.allowed() if self._opened else None

    def accept(self, token: int) -> None:
        """Append a token."""
        self.begun = True
        self._opened = self._opened or token in self._openers
        if self._opened:
            self._answer.accept(token)
            self.complete, self.ended = self._answer.complete, self._answer.ended

    def fork(self) -> "OpenedGuide | None":
        """Another one, with a fork of the answer's guide; None if that has none."""
        answer = self._answer.fork()
        if answer is None:
            return None
        child = copy(self)
        child._answer = answer
        return child

    def forced(self) -> list[int]:
        """The tokens that come next whatever the model computes."""
        return self._answer.forced() if self._opened else []
