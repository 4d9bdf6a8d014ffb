"""A batch that is killed at any moment goes on, and its output has the same bytes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from edgellm.batch.figures import Figures
from edgellm.batch.run import run
from support import with_support
from support.batch_kills import Silent, settings_of

REQUESTS = 60
TIMES = 20


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_killed_at_random_moments_no_line_is_lost_or_there_twice(tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    bodies = [{"prompt": f"What is {i}?", "max_tokens": 4 + i % 5, "temperature": i % 3} for i in range(REQUESTS)]
    source.write_text("".join(json.dumps(body) + "\n" for body in bodies))
    undisturbed, killed = tmp_path / "undisturbed.jsonl", tmp_path / "killed.jsonl"
    run(settings_of(source, undisturbed, parallel=1), Figures(), Silent())

    command = [sys.executable, "-m", "support.batch_kills", str(source), str(killed), str(TIMES)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300, env=with_support())
    answered = [int(count) for count in done.stdout.split()]
    assert len(answered) == TIMES
    assert sum(0 < count < REQUESTS for count in answered) > TIMES // 4, "the moments of the kills are no good"

    figures = Figures()
    run(settings_of(source, killed), figures, Silent())
    assert (figures.done, figures.total) == (REQUESTS, REQUESTS)
    assert killed.read_bytes() == undisturbed.read_bytes()
    names = [json.loads(line)["custom_id"] for line in killed.read_text().splitlines()]
    assert names == [f"line-{number}" for number in range(1, REQUESTS + 1)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.jsonl", "killed.jsonl", "undisturbed.jsonl"]
