"""Which blocks go on a GPU: one run of those that it can compute."""

from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgellm.engine import open_gpu
from edgellm.engine.device import DeviceFault
from edgellm.engine.limits import BatchLimits
from edgellm.engine.offload import OffloadRequest, OffloadTask
from edgellm.engine.open_gpu import GPUOpener
from edgellm.engine.placement import CPU, GPU, Placement, fewer_layers, is_split, longest_run, runs, with_empty_blocks
from edgellm.errors import EdgeLLMWarning

MODELS = st.integers(1, 6).flatmap(lambda n: st.lists(st.booleans(), min_size=2 * n + 1, max_size=2 * n + 1))
"""For each block of a model whether the GPU can compute it."""


def blocks_on_gpu(placement: Placement) -> list[int]:
    return [block for block, on in enumerate(placement) if on == GPU]


def test_a_gpu_gets_the_last_layers() -> None:
    able = [True] * 5
    assert longest_run(able, 0) == (CPU,) * 5
    assert longest_run(able, 1) == (CPU, CPU, GPU, GPU, CPU)
    assert longest_run(able, 2) == (GPU,) * 4 + (CPU,)
    assert longest_run(able, 3) == (GPU,) * 5
    assert longest_run(able, 3, cpu_head=True) == (GPU,) * 4 + (CPU,)
    assert longest_run(able, 1, kept={1, 3}) == (CPU, CPU, GPU, CPU, CPU)
    assert longest_run(able, 3, kept={1, 3}) == (GPU, CPU, GPU, CPU, GPU)


def test_a_block_without_a_shader_moves_the_run() -> None:
    """No hidden state goes there and back for a block in the middle."""
    able = [True] * 13  # six layers
    able[7] = False
    assert blocks_on_gpu(longest_run(able, 7)) == list(range(7))
    assert blocks_on_gpu(longest_run(able, 2)) == [8, 9, 10, 11], "two layers in both runs: the last one"
    assert blocks_on_gpu(longest_run(able, 3)) == [2, 3, 4, 5, 6]
    able[1] = False
    assert blocks_on_gpu(longest_run(able, 7)) == [8, 9, 10, 11, 12], "of equally long runs the last one"
    able[12] = False
    assert blocks_on_gpu(longest_run(able, 7, kept=range(1, 13, 2))) == [0, 2, 4, 6, 8, 10]


def test_experts_of_some_layers_stay_on_the_cpu() -> None:
    """They do not end the run of the others, and each takes a way there and back."""
    able = [True] * 7
    placement = longest_run(able, 4, kept={1, 3})
    assert blocks_on_gpu(placement) == [0, 2, 4, 5, 6]
    assert [list(blocks) for device, blocks in runs(placement) if device == GPU] == [[0], [2], [4, 5, 6]]
    assert blocks_on_gpu(longest_run(able, 2, kept={1, 3})) == [2, 4, 5], "the last two layers"
    assert is_split(placement)
    assert not is_split(longest_run(able, 2))
    assert not is_split((CPU, GPU, GPU, GPU, CPU, CPU, CPU))


@pytest.mark.parametrize("cpu_ffn", [False, True])
def test_experts_left_out_stay_out_when_memory_is_full(monkeypatch: pytest.MonkeyPatch, cpu_ffn: bool) -> None:
    """With whole layers in place of what did not fit, even less would."""
    asked = list[OffloadRequest]()

    def full(task: OffloadTask, progress: object) -> None:
        asked.append(task.request)
        if len(asked) == 1:
            fault = DeviceFault("its memory is full", out_of_memory=True)
            fault.fewer, fault.was_split = 2, True
            raise fault

    monkeypatch.setattr(open_gpu, "open_gpu", full)
    request = OffloadRequest("auto", cpu_ffn=cpu_ffn)
    opener = GPUOpener(OffloadTask("m.gguf", (), BatchLimits(64, 64, "f16"), request), 3)
    with pytest.warns(EdgeLLMWarning, match=r"trying fewer layers \(2\)"):
        assert opener.open("auto") == ((CPU,) * 7, None)
    assert asked == [request, OffloadRequest(2, cpu_ffn=cpu_ffn, cpu_moe=not cpu_ffn, was_auto=True)]


def test_empty_blocks_cost_no_crossing() -> None:
    placement = (GPU, CPU, GPU, CPU, GPU, GPU, GPU)
    assert with_empty_blocks(placement, ()) == placement
    assert with_empty_blocks(placement, {0, 2}) == (CPU, CPU, CPU, CPU, GPU, GPU, GPU), "none is before the first"
    assert with_empty_blocks(placement, {1, 3}) == (GPU, GPU, GPU, GPU, GPU, GPU, GPU)
    assert with_empty_blocks(placement, {3, 4}) == (GPU, CPU, GPU, GPU, GPU, GPU, GPU)
    assert with_empty_blocks((CPU, GPU, GPU, CPU, CPU), {1, 2}) == (CPU, CPU, CPU, CPU, CPU)


def test_runs() -> None:
    assert runs((CPU, CPU, GPU, GPU, CPU)) == [(CPU, range(2)), (GPU, range(2, 4)), (CPU, range(4, 5))]
    assert runs((GPU,) * 5) == [(CPU, range(0)), (GPU, range(5))]


@given(MODELS, st.integers(0, 7))
def test_it_is_one_run_of_able_blocks_and_none_is_longer(able: list[bool], layers: int) -> None:
    own = blocks_on_gpu(longest_run(able, layers))
    assert all(able[block] for block in own)
    assert not own or own == list(range(own[0], own[-1] + 1))
    assert len({block // 2 for block in own if block < len(able) - 1}) <= layers
    assert len(able) - 1 not in own or layers > len(able) // 2
    lengths = [len(list(members)) for is_able, members in groupby(able) if is_able]
    if layers > len(able) // 2:
        assert len(own) == max(lengths, default=0)
    elif layers:
        assert bool(own) == any(able[:-1])


@given(MODELS, st.integers(0, 7))
def test_with_feed_forwards_on_the_cpu_mixers_are_neighbours(able: list[bool], layers: int) -> None:
    own = blocks_on_gpu(longest_run(able, layers, kept=range(1, len(able), 2)))
    assert all(able[block] for block in own)
    assert not own or own == list(range(own[0], own[-1] + 1, 2))
    assert all(block % 2 == 0 for block in own)


@given(MODELS, st.integers(1, 7))
def test_fewer_layers_are_ever_fewer(able: list[bool], layers: int) -> None:
    """Where memory is short, tries come to an end."""
    tries = 0
    while layers:
        placement = longest_run(able, layers)
        fewer = fewer_layers(placement)
        assert fewer < layers
        layers, tries = fewer, tries + 1
    assert tries <= 7
