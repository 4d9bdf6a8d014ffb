"""The colours of the chat: a dark and a light theme, and the choice between them at the start."""

from collections.abc import Container, Mapping

from textual.theme import Theme

_LIGHT_COLOURS = {"7", "9", "10", "11", "12", "13", "14", "15"}


def _quiet(line: str, cursor: str, muted: str, foreground: str) -> dict[str, str]:
    """Muted colours for everything but text: scrollbars, frames and the keys in the footer."""
    return {
        "border": line,
        "text-muted": muted,
        "scrollbar": line,
        "scrollbar-hover": muted,
        "scrollbar-active": muted,
        "block-cursor-background": cursor,
        "block-cursor-foreground": foreground,
        "footer-key-foreground": foreground,
        "footer-description-foreground": muted,
    }


DARK = Theme(
    "edgellm-dark",
    primary="#78a9ff",
    secondary="#8fbcbb",
    accent="#e8b06f",
    success="#8ccf8c",
    warning="#e3c16f",
    error="#f2777a",
    foreground="#d9dce3",
    background="#12151b",
    surface="#191d25",
    panel="#1e232d",
    variables=_quiet("#3a4252", "#2c3a56", "#8b93a3", "#d9dce3") | {"scrollbar-background": "#12151b"},
)
LIGHT = Theme(
    "edgellm-light",
    primary="#2458b8",
    secondary="#1c6f78",
    accent="#9a4f08",
    success="#23733a",
    warning="#7d5a00",
    error="#b3262a",
    foreground="#23262d",
    background="#fcfbf8",
    surface="#f4f2ed",
    panel="#ebe8e1",
    dark=False,
    variables=_quiet("#c4c0b6", "#cfdcf5", "#6a6c72", "#23262d") | {"scrollbar-background": "#fcfbf8"},
)


def first_theme(stored: object, available: Container[str], environ: Mapping[str, str]) -> str:
    """The theme that the user chose, if it still exists; else the light one if COLORFGBG says so, or the dark one.

    Some terminals set COLORFGBG: `foreground;background`, or with a field between them, each one of 16 colours.
    Querying the terminal itself would delay the screen.
    """
    if isinstance(stored, str) and stored in available:
        return stored
    return (LIGHT if environ.get("COLORFGBG", "").rpartition(";")[2] in _LIGHT_COLOURS else DARK).name
