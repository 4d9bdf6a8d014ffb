"""The chat's screens as they were looked at and found good: characters, colours and styles.

Where a change of them is meant, `python tests/make_chat_golden.py` writes them anew; look at the difference.
"""

import asyncio
from pathlib import Path

import pytest
from chat_picture import characters, styles
from chat_scenes import SCENES, THEMES, on_stage

SIZES = ((80, 24), (120, 40))
GOLDEN = Path(__file__).parent / "golden" / "chat"


def golden(name: str, size: tuple[int, int]) -> Path:
    """The file of a screen."""
    return GOLDEN / f"{name}-{size[0]}x{size[1]}.txt"


async def picture(name: str, folder: Path, size: tuple[int, int]) -> str:
    """What the screen shows, and how in each theme."""
    text, parts = "", []
    for theme in THEMES:
        async with on_stage(name, folder / theme, size, theme) as chat:
            shown = characters(chat.app)
            assert (text or shown) == shown, "what is written differs with the theme"
            text = shown
            parts.append(f"-- {theme}\n{styles(chat.app)}")
    return "".join([text, *parts])


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("name", SCENES)
def test_the_screen_is_as_it_was(name: str, size: tuple[int, int], tmp_path: Path) -> None:
    assert asyncio.run(picture(name, tmp_path, size)) == golden(name, size).read_text("utf-8")
