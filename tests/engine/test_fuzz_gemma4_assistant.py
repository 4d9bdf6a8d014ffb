"""Whatever the metadata and the tensors of an assistant say: it computes beside its target, or says why not."""

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from edgellm import EdgeLLMError
from edgellm.arch import describe
from edgellm.arch.gemma4_assistant import read_assistant_head
from edgellm.engine.native_engine import NativeEngine
from edgellm.engine.protocol import Segment
from edgellm.gguf import GGUFFile
from edgellm.system.folders import cache_folder
from support.archs import ArchFixture
from support.family_mutations import changed, changes
from support.gemma_assistants import IDS, write_assistant
from support.gguf_parts import GGUFParts
from support.heads import needed

pytestmark = pytest.mark.slow
LENGTH = 20
"""More tokens than the window has."""


def compute_rows(engine: NativeEngine) -> None:
    """Compute a text, and three drafts behind it. Raises EdgeLLMError."""
    head, sequence = engine.draft_head, engine.new_sequence()
    assert head
    engine.compute([Segment(sequence, IDS[:LENGTH])])
    state = head.state_of(sequence)
    segment = state.segment(IDS[: LENGTH + 1], head.max_rows)
    for _ in range(3):
        assert segment
        outputs = head.compute([segment])
        assert outputs.logits is not None
        assert outputs.logits.shape == (1, engine.vocab)
        segment = state.next_segment(int(np.argmax(outputs.logits[0])), head.next_features(outputs))


def computes(path: Path, target: GGUFFile) -> bool:
    """Open an assistant and compute some rows; False when a clear error in one line ended that."""
    try:
        with GGUFFile.open(path) as file:
            request = needed(read_assistant_head(file, describe(target)), file.check)
            engine = NativeEngine(target, threads=1, ctx=64, kv_type="f16", cache=cache_folder(), draft_head=request)
            with closing(engine):
                compute_rows(engine)
    except EdgeLLMError as error:
        assert str(error)
        assert "\n" not in str(error)
        return False
    return True


def test_changed_assistants_compute_or_say_why_not(shared: Path, tmp_path: Path) -> None:
    whole, path, outcomes = write_assistant(tmp_path / "whole.gguf"), tmp_path / "changed.gguf", [0, 0]
    parts = GGUFParts.read(whole)
    with GGUFFile.open(ArchFixture.of(shared, "gemma4_e2b").gguf) as target:
        assert computes(whole, target)
        for change in changes(whole):
            path.write_bytes(changed(parts, [change]).build())
            try:
                outcomes[computes(path, target)] += 1
            except Exception as error:
                raise AssertionError(f"{change.label}: {error!r}") from error
    assert min(outcomes) > 20
