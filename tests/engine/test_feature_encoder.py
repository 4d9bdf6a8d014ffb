"""The encoder of an EAGLE-3 head: the checkpoint's numbers, and the same bits in any batch."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from numpy.typing import NDArray

from edgellm.arch import describe
from edgellm.arch.eagle3 import read_eagle3_head
from edgellm.engine.feature_encoder import EncoderDevice
from edgellm.engine.protocol import Stopped
from edgellm.gguf import GGUFFile
from edgellm.system.folders import cache_folder
from support.eagle3_heads import HEADS, TARGET, HeadFiles, Reference, write_head_files
from support.thread_chains import new_pool

Floats = NDArray[np.float32]
TAPS = np.random.default_rng(3).standard_normal((41, 3 * TARGET["width"])).astype(np.float32)


@pytest.fixture(scope="module", params=["midlayer", "speculators"])
def files(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> HeadFiles:
    return write_head_files(tmp_path_factory.mktemp("heads"), request.param, "Q8_0")


@contextmanager
def opened(files: HeadFiles, threads: int = 2, rows: int = 64) -> Iterator[EncoderDevice]:
    """The encoder of a head, on a pool of its own."""
    with GGUFFile.open(files.target) as target, GGUFFile.open(files.head) as file:
        head, pool = read_eagle3_head(file, describe(target)), new_pool(threads)
        assert head.encoder
        device = EncoderDevice(head.encoder, rows=rows, pool=pool, cache=cache_folder())
        yield device
        device.close()
        pool.close()


def test_features_are_those_of_the_checkpoint(files: HeadFiles) -> None:
    expected = Reference(files.folder, HEADS[files.name], {}).encode(TAPS.astype(np.float64))
    with opened(files) as device:
        found = device.encode(TAPS)
    assert found.shape == expected.shape
    assert np.linalg.norm(found - expected) < 0.02 * np.linalg.norm(expected), "weights and activations of 8 bits"


def test_the_same_bits_for_any_batch_and_threads(files: HeadFiles) -> None:
    found = set()
    for threads in (1, 3):
        with opened(files, threads) as device:
            for chunk in (1, 7, 41):
                parts = [device.encode(TAPS[i : i + chunk]) for i in range(0, len(TAPS), chunk)]
                found.add(np.concatenate(parts).tobytes())
    assert len(found) == 1


def test_results_stay_when_the_next_ones_come(files: HeadFiles) -> None:
    with opened(files) as device:
        first = device.encode(TAPS[:4])
        before = first.copy()
        device.encode(TAPS[4:8])
        assert np.array_equal(first, before)


def test_a_stop_ends_it(files: HeadFiles) -> None:
    with opened(files) as device:
        device._cpu.stop()
        with pytest.raises(Stopped):
            device.encode(TAPS)
        device._cpu.clear()
        assert np.isfinite(device.encode(TAPS)).all()
