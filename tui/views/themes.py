"""Which theme the chat begins with."""

from collections.abc import Container, Mapping

DARK, LIGHT = "textual-dark", "textual-light"

_LIGHT_COLOURS = {"7", "9", "10", "11", "12", "13", "14", "15"}


def first_theme(kept: object, known: Container[str], environ: Mapping[str, str]) -> str:
    """The theme that was kept, if it is still known; or else a light one where the terminal says that it is light.

    Terminals that tell their colours do so in COLORFGBG: `foreground;background`, or with something between them,
    each as one of the 16 colours. Asking the terminal itself would keep the screen waiting.
    """
    if isinstance(kept, str) and kept in known:
        return kept
    return LIGHT if environ.get("COLORFGBG", "").rpartition(";")[2] in _LIGHT_COLOURS else DARK
