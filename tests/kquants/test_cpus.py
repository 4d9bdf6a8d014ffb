"""All tests of single kernels once more, for lesser CPUs than this one, and each way to multiply bytes, of any CPU.

What a process has compiled for stays with it: each CPU is a process of its own. Instructions that this CPU lacks are
emulated.
"""

from pathlib import Path
from typing import Any

import pytest

from kquants import FLOAT_FORMATS, FORMATS
from kquants.simd import HAS_BYTE_PERMUTATIONS
from kquants.tuning import RECORDS, tuning
from support.cpus import (
    EACH_KIND,
    LESSER,
    LOWERINGS,
    UNPACKED_OTHERWISE,
    USUAL,
    python,
    python_on_lesser,
    python_with,
    some_of_each_kind,
)
from support.model_file import ModelFile

OF_ATTENTION = ("attention", "attention_options", "rope_store")
OF_ACTIVATIONS = (
    "quantized_activations",
    "norms",
    "residuals",
    "square_sums",
    "activations",
    "functions",
    "embeddings",
)
OF_ACTIVATIONS += ("streams",)
OF_RECURRENT = ("recurrent_scans", "recurrent_conv", "recurrent_gates", "channel_delta", "selective_scan")
KERNEL_PARTS = ("dequantize", "matmul", *OF_ATTENTION, *OF_ACTIVATIONS, *OF_RECURRENT)
KERNEL_TESTS = [f"kquants/test_{part}.py" for part in KERNEL_PARTS]
OF_LESSER = (*FLOAT_FORMATS, *USUAL, "IQ4_XS", *UNPACKED_OTHERWISE)
"""Formats that are tested on lesser CPUs; with `exhaustive`, all are."""

LESSER_TESTS = f"""
import sys, pytest
from kquants import FORMATS
from support import kernels
tested = sys.argv[1:]
others = [name for name in FORMATS if not any(name in format for format in tested)]  # as `-k` finds names
left_out = {{f"{{op}}_{{name.lower()}}" for op in ("embed", "dequantize", "matmul") for name in others}}
kernels.NAMES[:] = [name for name in kernels.NAMES if name not in left_out]
chosen = " and not ".join(["not chunks", "refused_by_name", *others])
sys.exit(pytest.main(["-q", "-x", "-n0", "-p", "no:cacheprovider", "-k", chosen, *{KERNEL_TESTS}]))
"""

MORE_FORMATS = {
    "plain vectors": ("IQ3_S", "IQ2_XXS", "TQ1_0", "NVFP4"),
    "AVX-VNNI": ("IQ2_XS", "IQ3_S"),
    "AVX-512": ("IQ3_S",),
    "AVX-512 VNNI, of a Zen 5": ("IQ3_XXS", "TQ1_0", "NVFP4"),
    "Arm dot product": ("IQ3_S", "TQ1_0", "NVFP4"),
}
"""Formats that are tested beside some of EACH_KIND: they are unpacked in another way on these, by look-ups in memory
(row by row, and signs by GFNI; or under another offset), by permutations of bytes beside rows that come in parts, or
without either."""

SOME_PRODUCTS = {
    lowering: (*FLOAT_FORMATS, *some_of_each_kind(number), *MORE_FORMATS.get(lowering, ()))
    for number, lowering in enumerate(LOWERINGS)
}

OF_MODELS = [
    "submit_job",
    "run_caller",
    "run_worker",
    "rms_norm",
    "keep_outputs",
    "quantize",
    "swiglu",
    "attention_merge",
]
OF_MODELS += [f"{op}_{kv}" for op in ("rope_store", "attention") for kv in ("f16", "q8_0")]
OF_MODELS += ["embed_f16", "embed_q6_k", "embed_q8_0", "matmul_f16", "matmul_q4_k", "matmul_q6_k", "matmul_q8_0"]
"""What the models below need: all is compiled in one go, as each process that compiles takes seconds to begin."""

PRODUCT_TESTS = f"""
import sys, pytest
from support import kernels
formats = sys.argv[1:]
kernels.NAMES[:] = [*{OF_MODELS}, *{{f"matmul_{{name.lower()}}" for name in formats}} - {{*{OF_MODELS}}}]
chosen = " or ".join(["dot4", "are_quantized", "super_blocks", "inf_show", "tiny", "largest_super", *formats])
of = ("dot4", "matmul", "float_matmul", "grouped_matmul", "quantized_activations")
files = [f"kquants/test_{{part}}.py" for part in of]
sys.exit(pytest.main(["-q", "-x", "-n0", "-p", "no:cacheprovider", "-k", chosen, *files]))
"""
UNPACKING_TESTS = """
import sys, pytest
chosen = "(random_bytes or every_bit) and (IQ or TQ or Q1_0 or Q2_0 or NVFP4)"
files = ["kquants/test_dequantize.py", "kquants/test_formats.py"]
sys.exit(pytest.main(["-q", "-x", "-n0", "-p", "no:cacheprovider", "-k", chosen, *files]))
"""
LOGITS = f"""
import sys, hashlib, itertools, pathlib
from support import kernels
from support.logits_bits import logits_bits
kernels.NAMES[:] = {OF_MODELS}
kernels.addresses()
for path, kv_type in itertools.product(map(pathlib.Path, sys.argv[1:]), ("f16", "q8_0")):
    whole = logits_bits(path, 2, None, kv_type)
    # Most in one thread: two wait for each other at every op, of which there are many.
    for threads, chunk in ((1, 1), (1, 3), (2, 7), (1, 9)):
        assert (logits_bits(path, threads, chunk, kv_type) == whole).all(), f"chunks of {{chunk}}"
    print(kv_type, hashlib.sha256(whole).hexdigest())
"""


# At first, each process compiles kernels for a CPU of its own.
pytestmark = [pytest.mark.cpus, pytest.mark.timeout(1800)]


def some_and_all(some: dict[str, tuple[str, ...]]) -> list[Any]:
    """Parameters (lowering, formats): some formats of each lowering, and all with `exhaustive`."""
    every = [pytest.param(name, FORMATS, id=f"{name}, all", marks=pytest.mark.exhaustive) for name in some]
    return [*(pytest.param(*each, id=each[0]) for each in some.items()), *every]


@pytest.mark.parametrize(("lowering", "formats"), some_and_all(dict.fromkeys(LESSER, OF_LESSER)))
def test_kernels_are_right_on_a_lesser_cpu(lowering: str, formats: tuple[str, ...]) -> None:
    python_on_lesser(lowering, LESSER_TESTS, *formats)


def test_each_kind_of_format_is_multiplied_in_some_lowering_of_each_machine() -> None:
    for machine in (False, True):
        found = {name for lowering, names in SOME_PRODUCTS.items() if ("Arm" in lowering) == machine for name in names}
        assert found >= {*EACH_KIND, *FLOAT_FORMATS}


SPLIT_K = """
from kquants.tuning import tuning
print([tuning().split_k.get(bits, ()) for bits in (4, 6, 8)], *tuning().split_k_bytes)
"""
WHOLE, MANY = "[(), (), ()] 20480 81920", "[(4,), (4, 16), (4, 8)] 20480 81920"
SPLITS = [("sapphirerapids", "avx512vnni", WHOLE), ("alderlake", "avxvnni", WHOLE), ("znver3", "avx2", WHOLE)]
SPLITS += [("znver5", "avx512vnni", MANY), ("znver4", "avx512vnni", "[(), (4,), ()] 20480 81920")]
SPLITS += [("generic", "dotprod", MANY), ("ivybridge", "ssse3", WHOLE), ("x86-64", "avx", WHOLE)]


@pytest.mark.parametrize(("cpu", "feature", "split_k"), SPLITS)
def test_in_how_many_parts_rows_come(cpu: str, feature: str, split_k: str) -> None:
    assert python("-c", SPLIT_K, NUMBA_CPU_NAME=cpu, NUMBA_CPU_FEATURES=f"+{feature}").strip() == split_k


@pytest.mark.parametrize(("lowering", "formats"), some_and_all(SOME_PRODUCTS))
def test_products_are_right_in_each_lowering(lowering: str, formats: tuple[str, ...]) -> None:
    python_with(lowering, PRODUCT_TESTS, *formats)


@pytest.mark.skipif(HAS_BYTE_PERMUTATIONS, reason="this CPU has them: test_dequantize and test_formats run as they are")
def test_weights_are_right_by_permutations_of_bytes() -> None:
    python_with("AVX-512 VNNI, with VBMI, GFNI and BF16", UNPACKING_TESTS)


@pytest.fixture(scope="module")
def models(model_file: ModelFile) -> list[Path]:
    return [model_file(types=recipe) for recipe in ("Q8_0", "Q4_K", "F16")]  # too narrow to come in parts


@pytest.fixture(scope="module")
def bits(models: list[Path]) -> list[str]:
    """Those of this CPU, model by model."""
    return python("-c", LOGITS, *models).splitlines()


@pytest.fixture(scope="module")
def usual_bits(models: list[Path], bits: list[str]) -> list[str]:
    """Those of a CPU whose quantized activations are up to 127, as all but those with Winograd's inner product have.

    On such a CPU with AVX-512 VNNI, of no maker that is known, if this one has other activations.
    """
    return bits if tuning().activation_int8_max == 127 else python_with("AVX-512 VNNI", LOGITS, *models).splitlines()


@pytest.mark.parametrize("lowering", LOWERINGS)
def test_models_have_the_same_bits_in_each_lowering(
    lowering: str, models: list[Path], bits: list[str], usual_bits: list[str]
) -> None:
    found = python_with(lowering, LOGITS, *models).splitlines()
    if "Zen 4" not in lowering:
        assert found == usual_bits
    elif tuning().activation_int8_max == 120:
        assert found == bits
    else:  # no other CPU has these activations, which Q4_K and Q6_K are multiplied by
        assert found[:2] + found[4:] == bits[:2] + bits[4:]


def test_largest_activations_are_127_but_for_winograds_inner_product() -> None:
    assert {(record.winograd, record.activation_int8_max) for record in RECORDS} == {(False, 127), (True, 120)}
