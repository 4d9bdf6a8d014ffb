"""Which blocks go on a GPU: one run of those that it can compute."""

from itertools import groupby

from hypothesis import given
from hypothesis import strategies as st

from edgellm.engine.placement import CPU, GPU, Placement, fewer_layers, longest_run, runs

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
