"""The screen as text: its characters, and below them the style of each run of cells."""

from collections.abc import Iterator
from itertools import groupby

from rich.style import Style
from textual.app import App
from textual.strip import Strip


def characters(app: App[None]) -> str:
    """The characters of the screen."""
    return "\n".join(strip.text.rstrip() for strip in _strips(app)) + "\n"


def styles(app: App[None]) -> str:
    """A line for each line of the screen, such as `3a 74b 3a`, and what the letters mean.

    Lines that are styled like the one before are counted.
    """
    names: dict[str, str] = {}
    lines = [" ".join(_runs(strip, names)) for strip in _strips(app)]
    rows = [f"{len(list(same)):>2} × {line}" for line, same in groupby(lines)]
    return "\n".join([*rows, *(f"{name} {style}" for style, name in names.items())]) + "\n"


def _strips(app: App[None]) -> list[Strip]:
    return app.screen._compositor.render_strips()


def _runs(strip: Strip, names: dict[str, str]) -> Iterator[str]:
    for look, same in groupby(strip, lambda segment: _look(segment.style)):
        width = sum(segment.cell_length for segment in same)
        if not width:
            continue
        name = names.setdefault(look, _name(len(names)))
        yield f"{width}{name}"


def _look(style: Style | None) -> str:
    """The colours and the attributes; links and metadata are not seen."""
    if style is None:
        return "plain"
    attributes = ("bold", "dim", "italic", "underline", "reverse", "strike")
    said = [name for name in attributes if getattr(style, name)]
    colours = f"{style.color.name if style.color else '-'} on {style.bgcolor.name if style.bgcolor else '-'}"
    return " ".join([*said, colours])


def _name(number: int) -> str:
    return chr(ord("a") + number) if number < 26 else chr(ord("A") + number - 26)
