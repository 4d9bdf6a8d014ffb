"""A sequence for engines that compute nothing."""

from edgellm.engine import protocol


class Sequence(protocol.Sequence):
    """Tokens without any state."""

    def fork(self) -> "Sequence":
        child = Sequence()
        child.tokens = list(self.tokens)
        return child

    def trim(self, n: int) -> int:
        del self.tokens[n:]
        return len(self.tokens)
