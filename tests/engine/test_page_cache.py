"""Which weights of a mapped file are in memory, as Linux tells it."""

import mmap
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from edgellm.gguf import GGUFFile
from edgellm.gguf.page_cache import read_pages_alone, resident_bytes
from support.model_file import ModelFile

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems evict pages when they like")


@pytest.fixture
def evicted(model_file: ModelFile) -> Path:
    """A model whose file is on the disk alone."""
    path = model_file(width=1024, heads=8, kv_heads=2, head_dim=128, ffn=4096, types="F32")
    descriptor = os.open(path, os.O_RDWR)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)
    with GGUFFile.open(path) as file:
        down = file.tensors["blk.1.ffn_down.weight"]
        if resident_bytes([down]):
            pytest.skip("this file system keeps files in memory")
    return path


def test_counts_what_was_read(evicted: Path) -> None:
    with GGUFFile.open(evicted) as file:
        down, gate = (file.tensors[f"blk.1.ffn_{name}.weight"] for name in ("down", "gate"))
        int(down.data.sum())
        assert resident_bytes([down]) == down.nbytes
        assert resident_bytes([down, gate]) <= down.nbytes + gate.nbytes


def test_reads_a_page_alone_where_it_is_told_so(evicted: Path) -> None:
    with GGUFFile.open(evicted) as file:
        down = file.tensors["blk.1.ffn_down.weight"]
        read_pages_alone([down])
        assert np.isfinite(float(down.data[down.nbytes // 2]))
        found = resident_bytes([down])
        assert found is not None and mmap.PAGESIZE <= found < 1 << 17 < down.nbytes
