"""Every split of trained models between CPU and GPU: as near to the truth as the CPU, and the same text.

`python -m support.gpu_splits MODEL...` measures the same for any file, with figures.
"""

from pathlib import Path

import pytest

from converters import quantize
from support.gpu_splits import measure
from support.gpus import adapter

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("here")]


@pytest.mark.parametrize("type", ["F16", "Q8_0", "Q4_0"])
def test_stories(shared: Path, tmp_path: Path, type: str) -> None:
    adapter()
    path = tmp_path / "model.gguf"
    quantize(shared / "models" / "stories260K" / "stories260K-f32.gguf", path, type)
    splits = measure(path, single=3, greedy=6)
    assert [split.blocks for split in splits.each] == [2, 4, 6, 8, 10, 11]
    assert all(split.differs is None or split.differs >= splits.sure for split in splits.each)
    if type == "F16":
        assert max(split.to_cpu for split in splits.each) < 1e-5
    else:
        assert splits.ratio <= 1.1
