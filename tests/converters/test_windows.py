"""A window of a checkpoint is that which edgellm reads from the file, whatever the reader assumes without a key."""

import json
from pathlib import Path

import pytest

from converters.architectures import describe
from converters.checkpoint import Checkpoint
from support.families import CASES
from support.families.checkpoint import write_family_checkpoint
from support.families.references import load_reference
from support.family_file import DescribeFamily, windows


@pytest.mark.parametrize("architecture", ["starcoder2", "phi3"])
@pytest.mark.parametrize(
    ("window", "context", "seen"),
    [
        (4096, 16384, 4096),
        (2048, 16384, 2048),
        (6000, 16384, 6000),
        (None, 16384, None),
        (6000, 5000, None),
        (100, 512, 100),
        (4096, 4096, None),
    ],
)
def test_a_window_is_read_as_it_was(
    tmp_path: Path,
    described_family: DescribeFamily,
    architecture: str,
    window: int | None,
    context: int,
    seen: int | None,
) -> None:
    name = {"starcoder2": "starcoder2", "phi3": "phi4"}[architecture]
    folder = write_family_checkpoint(tmp_path / name, CASES[name], load_reference(name).tensors)
    changed = CASES[name].config | {"sliding_window": window, "max_position_embeddings": context}
    (folder / "config.json").write_text(json.dumps(changed | {"original_max_position_embeddings": context}))
    metadata = describe(Checkpoint.open(folder))[0]
    key = "attention.sliding_window"
    written = metadata.get(f"{architecture}.{key}")
    model = described_family(architecture, {"context_length": context, key: written and written.value})
    assert windows(model) == [seen] * 4
