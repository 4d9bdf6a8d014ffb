"""What tests share: oracles, builders of files, fakes, CPUs to pretend. No test imports another test.

`python -m support.NAME`, in the folder tests, runs those that are programs.
"""

import os
from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
SHARED = ROOT.parent / "shared"
"""The folder of trained models, vocabularies and texts beside the project; this machine may not have it."""


def with_support() -> dict[str, str]:
    """The environment of a child process that imports this package."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (TESTS, ROOT)))}
