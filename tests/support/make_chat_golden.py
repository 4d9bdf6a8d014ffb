"""Write down how the chat's screens look now: `python -m support.make_chat_golden`, for test_chat_snapshots.py.

With a folder behind it, it also puts an SVG of each there, to be looked at.
"""

import asyncio
import os
import sys
import tempfile
from pathlib import Path

from support.chat_golden import GOLDEN, SIZES, golden, picture
from support.chat_scenes import SCENES, THEMES, on_stage


async def main(folder: Path, svgs: Path | None) -> None:
    GOLDEN.mkdir(exist_ok=True)
    for name in SCENES:
        for size in SIZES:
            text = await picture(name, folder / f"{name}{size[0]}", size)
            golden(name, size).write_text(text, "utf-8")
            for theme in THEMES if svgs else ():
                async with on_stage(name, folder / f"{name}{size[0]}{theme}", size, theme) as chat:
                    chat.app.save_screenshot(f"{name}-{size[0]}-{theme}.svg", str(svgs))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        os.environ["EDGELLM_HOME"] = made
        asyncio.run(main(Path(made), Path(sys.argv[1]) if len(sys.argv) > 1 else None))
