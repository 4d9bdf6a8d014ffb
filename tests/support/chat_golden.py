"""The chat's screens as text, and the golden files to compare with."""

from pathlib import Path

from support.chat_picture import characters, styles
from support.chat_scenes import THEMES, on_stage

SIZES = ((80, 24), (120, 40))
GOLDEN = Path(__file__).parent / "golden" / "chat"


def golden(name: str, size: tuple[int, int]) -> Path:
    """The golden file of a screen."""
    return GOLDEN / f"{name}-{size[0]}x{size[1]}.txt"


async def picture(name: str, folder: Path, size: tuple[int, int]) -> str:
    """The characters of a screen, and its styles in each theme."""
    text, parts = "", []
    for theme in THEMES:
        async with on_stage(name, folder / theme, size, theme) as chat:
            shown = characters(chat.app)
            assert (text or shown) == shown, "what is written differs with the theme"
            text = shown
            parts.append(f"-- {theme}\n{styles(chat.app)}")
    return "".join([text, *parts])
