"""kill -9 at any moment: the target is whole or absent, and the next run cleans up."""

import signal
from pathlib import Path

import pytest

from support.kills import kill_at_random_moments
from support.model_file import ModelFile

pytestmark = pytest.mark.slow


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_killed_at_any_moment_the_target_is_whole_or_absent(model_file: ModelFile, tmp_path: Path) -> None:
    seen = kill_at_random_moments(model_file(types="F16", layers=8), tmp_path, 6)
    assert seen["begun"] > 0  # or else nothing was tried
