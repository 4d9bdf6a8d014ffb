"""Processes that import `kquants` from its own folder, or from a copy that a test has changed."""

import os
import subprocess
import sys
from pathlib import Path

import kquants

PACKAGE = Path(kquants.__file__).parent
SMALL = "dequantize_bf16"
"""A kernel that compiles in a moment."""


def python(code: str, *arguments: object, root: Path = PACKAGE.parent, **environment: str) -> str:
    """What a process of its own prints, with the package under `root`."""
    command = [sys.executable, "-P", "-c", code, *map(str, arguments)]
    env = {**os.environ, "PYTHONPATH": str(root), **environment}
    return subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout
