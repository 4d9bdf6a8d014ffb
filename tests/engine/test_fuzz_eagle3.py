"""Whatever the metadata and the tensors of an EAGLE-3 head say: it computes beside its target, or says why not."""

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from edgellm import EdgeLLMError
from edgellm.arch import describe
from edgellm.arch.eagle3 import read_eagle3_head
from edgellm.engine.head_engine import HeadEngine
from edgellm.engine.native_engine import NativeEngine
from edgellm.engine.protocol import Segment
from edgellm.gguf import GGUFFile
from edgellm.system.folders import cache_folder
from support.eagle3_heads import TARGET, write_head_files
from support.family_mutations import changed, changes
from support.gguf_parts import GGUFParts

pytestmark = pytest.mark.slow


def computes(path: Path, target: NativeEngine, target_file: GGUFFile) -> bool:
    """Open a head and compute some pairs; False when a clear error in one line ended that."""
    try:
        with GGUFFile.open(path) as file:
            head = read_eagle3_head(file, describe(target_file))
            options = {"kv_type": "f16", "ctx": 64, "cache": cache_folder(), "check": file.check}
            options["pages"] = target._runner.cpu.pages
            with closing(HeadEngine(head, pool=target.pool, **options)) as engine:
                states = np.ones((4, 3 * TARGET["width"]), np.float32)
                outputs = engine.compute([Segment(engine.follow().own, [3, 1, 2, 0], (3,), features=states)])
                assert outputs.logits is not None
                assert engine.target_logits(outputs.logits[-1]).shape == (target.vocab,)
    except EdgeLLMError as error:
        assert str(error)
        assert "\n" not in str(error)
        return False
    return True


@pytest.mark.parametrize("name", ["midlayer", "speculators"])
def test_changed_heads_compute_or_say_why_not(name: str, tmp_path: Path) -> None:
    files, path, outcomes = write_head_files(tmp_path, name, "F32"), tmp_path / "changed.gguf", [0, 0]
    parts = GGUFParts.read(files.head)
    with GGUFFile.open(files.target) as file:
        target = NativeEngine(file, threads=1, ctx=64, kv_type="f16", cache=cache_folder())
        assert computes(files.head, target, file)
        for change in changes(files.head):
            path.write_bytes(changed(parts, [change]).build())
            try:
                outcomes[computes(path, target, file)] += 1
            except Exception as error:
                raise AssertionError(f"{change.label}: {error!r}") from error
        target.close()
    assert min(outcomes) > 20
