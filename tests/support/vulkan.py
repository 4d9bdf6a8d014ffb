"""A Vulkan loader that lets things go wrong (see vulkan_faults.c), for the processes that are started with it."""

import ctypes.util
import shutil
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).with_name("vulkan_faults.c")


def build(folder: Path) -> Path | None:
    """The folder with the loader, for LD_LIBRARY_PATH; None where it cannot be made."""
    compiler, name = shutil.which("cc"), ctypes.util.find_library("vulkan")
    if sys.platform != "linux" or not compiler or not name:
        return None
    real = next((path for path in Path("/usr/lib").glob(f"**/{name}") if path.resolve().is_file()), None)
    if not real:
        return None
    made = [compiler, "-shared", "-fPIC", f'-DREAL_LOADER="{real}"', "-o", str(folder / name), str(SOURCE), "-ldl"]
    subprocess.run(made, check=True)
    return folder
