"""Quantized models of the families are as near to exact as llama.cpp's results on the same files.

`python -m support.quantized_families` measures all of them. Run with -s to see the figures.
"""

from collections.abc import Callable
from functools import cache

import pytest

from support.quantized_families import Distances, geometric_mean, measure

pytestmark = pytest.mark.slow

NAMES = ["gemma3_1b", "gemma4_e2b", "phi4", "granite", "olmo2", "cohere2", "starcoder2_15b", "apertus"]
NAMES += ["qwen3moe", "qwen2moe", "mixtral", "minimax_m2", "deepseek_v3", "granitemoe", "gemma4_26b", "ernie4_5_21b"]
NAMES += ["hunyuan_moe", "glm4_5_air", "gpt_oss", "granite4_h_tiny", "mamba1", "falcon_mamba", "mamba2", "falcon_h1"]
NAMES += ["lfm2", "lfm2_moe", "nemotron_h", "nemotron3_super", "qwen3_5", "qwen3_next", "kimi_linear"]


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Distances]:
    """The distances of the wide case of a name as Q4_K_M, measured once."""

    @cache
    def get(name: str) -> Distances:
        distances = measure(tmp_path_factory.mktemp(name), f"wide_{name}", "Q4_K_M")
        print(f"\n{name:15} edgellm {distances.edgellm:.2e}  llama.cpp {distances.llama_cpp:.2e}")
        return distances

    return get


@pytest.mark.parametrize("name", NAMES)
def test_no_family_is_much_farther_than_llama_cpp(measured: Callable[[str], Distances], name: str) -> None:
    assert measured(name).edgellm > 1e-7, "no quantization shows"
    assert measured(name).ratio <= 1.25


def test_the_families_are_as_near_as_llama_cpp(measured: Callable[[str], Distances]) -> None:
    mean = geometric_mean([measured(name) for name in NAMES])
    print(f"\ngeometric mean of the ratios {mean:.3f}")
    assert mean <= 1.05
