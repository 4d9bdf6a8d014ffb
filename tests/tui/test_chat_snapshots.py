"""The chat's screens, compared with golden files: characters, colours and styles.

Where a change of them is meant, `python -m support.make_chat_golden`, in tests/, writes them anew; look at the
difference.
"""

import asyncio
from pathlib import Path

import pytest

from support.chat_golden import SIZES, golden, picture
from support.chat_scenes import SCENES


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("name", SCENES)
def test_the_screen_is_as_it_was(name: str, size: tuple[int, int], tmp_path: Path) -> None:
    assert asyncio.run(picture(name, tmp_path, size)) == golden(name, size).read_text("utf-8")
