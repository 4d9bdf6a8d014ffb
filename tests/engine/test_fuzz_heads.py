"""Whatever a file says of its head: it computes beside its model, or one clear error says why not."""

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from edgellm import EdgeLLMError
from edgellm.arch import describe, describe_head
from edgellm.engine.native_engine import NativeEngine
from edgellm.engine.protocol import Segment
from edgellm.gguf import GGUFFile
from edgellm.system.folders import cache_folder
from support.family_mutations import changed, changes
from support.gguf_parts import GGUFParts
from support.heads import needed
from support.model_file import FamilyFile

pytestmark = pytest.mark.slow


def computes(path: Path) -> bool:
    """Compute some pairs of the file's head, if it has one; False when a clear error in one line ended that."""
    try:
        with GGUFFile.open(path) as file:
            model = describe(file)
            head = describe_head(file, model)
            asked = needed(head) if head else None
            engine = NativeEngine(file, threads=1, ctx=64, kv_type="f16", cache=cache_folder(), draft_head=asked)
            with closing(engine):
                if engine.draft_head:
                    features = np.ones((4, model.width), np.float32)
                    segment = Segment(engine.draft_head.follow().own, [3, 1, 2, 0], (3,), features=features)
                    outputs = engine.draft_head.compute([segment])
                    assert outputs.logits is not None and outputs.logits.shape == (1, model.vocab)
    except EdgeLLMError as error:
        assert str(error)
        assert "\n" not in str(error)
        return False
    return True


@pytest.mark.parametrize("name", ["qwen3_5", "glm4_5_air"])
def test_changed_heads_compute_or_say_why_not(name: str, family_file: FamilyFile, tmp_path: Path) -> None:
    source, path, outcomes = family_file(name), tmp_path / "changed.gguf", [0, 0]
    parts = GGUFParts.read(source)
    layer = next(each for each in parts.tensors if each.endswith("nextn.eh_proj.weight")).split("nextn")[0]
    assert computes(source)
    for change in changes(source):
        if "blk." in change.label and layer not in change.label:
            continue  # of the model itself
        path.write_bytes(changed(parts, [change]).build())
        try:
            outcomes[computes(path)] += 1
        except Exception as error:
            raise AssertionError(f"{change.label}: {error!r}") from error
    assert min(outcomes) > 20
