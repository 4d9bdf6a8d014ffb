"""What is measured of a reply on this machine: each piece of text is timed as it arrives."""

from dataclasses import replace

from edgellm.generate.stats import Live, Stats
from edgellm.generate.timing import RequestTimer
from edgellm.remote.parts import TokenUsage


class ReplyFigures:
    """The figures of one reply; its time begins when this is made.

    Pieces are counted until the server tells how many tokens there were. One thread records, others may read.
    """

    def __init__(self) -> None:
        self._timer = RequestTimer(list)
        self._usage: TokenUsage | None = None

    def piece(self) -> int:
        """Record that a piece arrived now; returns the number of pieces so far."""
        return self._timer.record_token()

    def usage(self, usage: TokenUsage) -> None:
        """Take the counts of the server."""
        self._timer.prompt_tokens, self._timer.cached_tokens = usage.prompt, usage.cached
        self._timer.context_used = usage.prompt + usage.generated
        self._usage = usage

    def end(self) -> None:
        """Record that the reply ends now."""
        self._timer.end()

    def stats(self, pieces: int | None = None) -> Stats:
        """The figures after the first pieces, or after all.

        The mean speed is that of tokens if the server told their number, else that of pieces.
        """
        found = replace(self._timer.stats(pieces), queued_s=None, tokens_per_step=None)  # the server does not tell
        if pieces is not None or self._usage is None:
            return replace(found, estimated=True)
        usage, arrived = self._usage, found.generated_tokens
        tokens = usage.generated
        speed = found.decode_tps and found.decode_tps * max(0, tokens - 1) / (arrived - 1)
        found = replace(found, drafted=usage.drafted, accepted=usage.accepted)
        return replace(found, generated_tokens=tokens, decode_tps=speed or None)

    def live(self) -> Live:
        """The figures of this moment."""
        return replace(self._timer.live(), stats=self.stats())
