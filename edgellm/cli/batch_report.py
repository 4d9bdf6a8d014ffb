"""What `edgellm batch` tells: its progress, and a line at its end."""

from typing import TYPE_CHECKING

from edgellm.cli.progress import ProgressLine
from edgellm.cli.text_file import time_left
from edgellm.fmt import counted, duration, printable, shown_path

if TYPE_CHECKING:
    from edgellm.batch.figures import Figures


class BatchProgress(ProgressLine):
    """The progress line of a batch."""

    def note(self, text: str) -> None:
        """Write a line that stays."""
        self.announce(f"edgellm: note: {printable(text, 1000)}")

    def advanced(self, figures: "Figures") -> None:
        """Show how far the batch is."""
        parts = [f"{figures.done:,} of {counted(figures.total, 'request')}"]
        if tokens := figures.tokens_per_second:
            parts.append(f"{tokens:,.0f} tokens/s")
        if figures.answered:
            parts.append(time_left(figures.seconds, figures.answered, figures.total - figures.kept))
        if figures.failed:
            parts.append(_failed(figures))
        self.working(", ".join(parts))


def summary(figures: "Figures", out: str) -> str:
    """The line at the end of a batch."""
    name = shown_path(out)
    if not figures.answered:
        end = f" ({_failed(figures)})" if figures.failed else ""
        return f"{name} has the answers to all {counted(figures.total, 'request')} already{end}"
    parts = [f"{name}: {counted(figures.total, 'request')}"]
    if figures.kept:
        parts.append(f"{figures.kept:,} of them by earlier runs")
    if figures.failed:
        parts.append(_failed(figures))
    cached = f" ({figures.cached_tokens:,} cached)" if figures.cached_tokens else ""
    tokens = f"{counted(figures.prompt_tokens, 'token')}{cached} in, {figures.generated_tokens:,} out"
    return f"{', '.join(parts)}; {tokens}; {duration(figures.seconds)}, {figures.tokens_per_second:,.0f} tokens/s"


def interrupted(figures: "Figures", restarted: bool) -> str:
    """The line after Ctrl-C."""
    if not figures.done:
        return "interrupted before the first answer"
    again = "the same command without --restart" if restarted else "the same command"
    return f"interrupted; {figures.done:,} of {counted(figures.total, 'request')} are answered: {again} goes on"


def _failed(figures: "Figures") -> str:
    return f"{figures.failed:,} with an error"
