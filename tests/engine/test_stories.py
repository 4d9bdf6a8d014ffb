"""A trained model, end to end: the greedy text and the logits of stories260K."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

PROMPT = "Once upon a time"
N = 196  # tokens in golden.txt after the prompt


@pytest.fixture(scope="module")
def stories(shared: Path) -> Path:
    return shared / "models/stories260K"


def test_command_line_tells_the_golden_story(stories: Path) -> None:
    command = [sys.executable, "-m", "edgellm", "generate", str(stories / "stories260K-f32.gguf")]
    options = ["-p", PROMPT, "--temp", "0", "-n", str(N)]
    told = subprocess.run(command + options, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr
    assert PROMPT + told.stdout.removesuffix("\n") == (stories / "golden.txt").read_text()


def test_python_tells_the_golden_story(stories: Path) -> None:
    from edgellm import Model

    with Model.open(stories / "stories260K-f32.gguf", threads=2) as model:
        tokens = list(model.stream(PROMPT, max_tokens=N, temp=0))
    assert PROMPT + "".join(token.text for token in tokens) == (stories / "golden.txt").read_text()
    assert len(tokens) == N


@pytest.mark.parametrize(("kv_type", "tolerance"), [("f16", 2e-2), ("f32", 1e-3)])
def test_logits_equal_the_golden_ones(stories: Path, kv_type: str, tolerance: float) -> None:
    from edgellm import Model

    golden = np.load(stories / "stories260K_golden_logits.npz")
    with Model.open(stories / "stories260K-f32.gguf", threads=2, kv_type=kv_type) as model:
        logits = model.logits(golden["ids"].tolist())
    assert logits.shape == golden["logits"].shape
    assert np.abs(logits - golden["logits"]).max() < tolerance
