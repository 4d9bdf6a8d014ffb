"""Far into a sequence, models with recurrent layers still give the logits of `transformers`: no state drifts."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgellm.engine.batch import Segment
from support import gguf_bytes as raw
from support.archs import HYBRIDS, ArchFixture
from support.engine_bits import opened
from support.gguf_parts import GGUFParts
from support.long_runs import LENGTH, LONG_IDS, LONG_POSITIONS, long_logits
from support.reference import divergence

CHUNK = 250


@pytest.mark.parametrize("name", HYBRIDS)
def test_long_runs_do_not_drift(shared: Path, tmp_path: Path, name: str) -> None:
    parts, path = GGUFParts.read(ArchFixture.of(shared, name).gguf), tmp_path / "m.gguf"
    key = f"{HYBRIDS[name]}.context_length"  # that of some fixtures is shorter
    path.write_bytes(replace(parts, pairs=parts.pairs | {key: raw.u32_pair(key, 2 * LENGTH)}).build())
    found = []
    with opened(path, kv_type="f32", ctx=LENGTH) as engine:
        sequence = engine.new_sequence()
        for start in range(0, LENGTH, CHUNK):
            wanted = [position - start for position in LONG_POSITIONS if start <= position < start + CHUNK]
            found.append(engine.forward([Segment(sequence, LONG_IDS[start : start + CHUNK], wanted)]))
    truth, logits = long_logits(name).astype(np.float64), np.concatenate(found)
    for i, position in enumerate(LONG_POSITIONS):
        assert divergence(truth[i : i + 1], logits[i : i + 1]) <= 1e-9, f"position {position}"
