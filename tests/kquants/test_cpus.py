"""All tests of single kernels once more, for lesser CPUs than this one, and each way to multiply bytes, of any CPU.

What a process has compiled for stays with it: each CPU is a process of its own. Instructions that this CPU lacks are
emulated.
"""

from collections.abc import Callable, Iterable
from functools import cache
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
KERNEL_TESTS = [f"kquants/test_{part}.py" for part in (*KERNEL_PARTS, "formats")]
NOT_CALLED = ("attention_latent", "split_heads", "head_groups", "join_heads")
NOT_CALLED += ("route", "plan", "read_ahead", "gather", "combine")
"""What the names of kernels begin with that none of these tests calls."""
OF_LESSER = (*FLOAT_FORMATS, *USUAL, "IQ4_XS", *UNPACKED_OTHERWISE)
"""Formats that are tested on lesser CPUs; with `exhaustive`, all are."""

LESSER_TESTS = f"""
import sys, pytest
from kquants import FORMATS
from support import kernels
tested = sys.argv[1:]
others = [name for name in FORMATS if not any(name in format for format in tested)]  # as `-k` finds names
left_out = {{f"{{op}}_{{name.lower()}}" for op in ("embed", "dequantize", "matmul") for name in others}}
kernels.NAMES[:] = [name for name in kernels.NAMES if name not in left_out and not name.startswith({NOT_CALLED})]
chosen = " and not ".join(["not chunks", "refused_by_name", "any_bytes", *others])
sys.exit(pytest.main(["-q", "-x", "-n0", "-p", "no:cacheprovider", "-k", chosen, *{KERNEL_TESTS}]))
"""

LEAST = "SSSE3"
"""The lowering on which all kernels are tested once more: of a CPU without fused products and half floats."""

ALIKE = ("SSSE3", "AVX-512 VNNI", "AVX-512 VNNI, with VBMI, GFNI and BF16")
"""Lowerings that run only with `exhaustive`: one is LEAST, the others have nothing that neither a Zen 4 nor a Zen 5
has."""

MORE_FORMATS = {
    "plain vectors": ("F32", "IQ3_S", "TQ1_0", "NVFP4"),
    "AVX-VNNI": ("IQ2_XS", "IQ3_S"),
    "AVX-512": ("F32", "IQ3_S"),
    "AVX-512 VNNI, of a Zen 4": ("BF16",),
    "AVX-512 VNNI, of a Zen 5": ("IQ3_XXS", "TQ1_0", "NVFP4"),
    "plain vectors, of Arm": ("F32", "BF16"),
    "Arm dot product": ("IQ3_S", "TQ1_0", "NVFP4"),
}
"""Formats that are tested beside some of EACH_KIND: they are unpacked in another way on these, by look-ups in memory
(row by row, and signs by GFNI; or under another offset), by permutations of bytes beside rows that come in parts, or
without either. Floats are multiplied by vectors of another width, or in pairs of BF16."""

CHOSEN = [lowering for lowering in LOWERINGS if lowering not in ALIKE]
SOME_PRODUCTS = {
    lowering: ("F16", *some_of_each_kind(number, 2 if "Arm" in lowering else 1), *MORE_FORMATS.get(lowering, ()))
    for number, lowering in enumerate(CHOSEN)
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
OF_MODELS += ["rope_store_q8_0", "attention_q8_0"]
OF_MODELS += ["embed_f16", "embed_q6_k", "embed_q8_0", "matmul_f16", "matmul_q4_k", "matmul_q6_k", "matmul_q8_0"]
"""What the models below need: all is compiled in one go, as each process that compiles takes seconds to begin."""

PRODUCT_TESTS = f"""
import sys, pytest
from kquants import FLOAT_FORMATS, FORMATS
from support import kernels
formats = sys.argv[1:]
kernels.NAMES[:] = [*{OF_MODELS}, *{{f"matmul_{{name.lower()}}" for name in formats}} - {{*{OF_MODELS}}}]
chosen = " or ".join(["dot4", "are_quantized", "super_blocks", "inf_show", "tiny", "largest_super", *formats])
# `-k` finds parts of names: BF16 where F16 is asked for.
found = [name for name in (*FLOAT_FORMATS, *FORMATS) if name not in formats and any(part in name for part in formats)]
chosen = " and not ".join([f"({{chosen}})", *found])
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
import sys, hashlib, pathlib
from support import kernels
from support.logits_bits import logits_bits
kernels.NAMES[:] = {OF_MODELS}
kernels.addresses()
kv_type, *paths = sys.argv[1:]
for path in map(pathlib.Path, paths):
    whole = logits_bits(path, 2, None, kv_type)
    # Most in one thread: two wait for each other at every op, of which there are many.
    for threads, chunk in ((1, 1), (1, 3), (2, 7), (1, 9)):
        assert (logits_bits(path, threads, chunk, kv_type) == whole).all(), f"chunks of {{chunk}}"
    print(hashlib.sha256(whole).hexdigest())
"""


# At first, each process compiles kernels for a CPU of its own.
pytestmark = [pytest.mark.cpus, pytest.mark.timeout(1800)]


def some_and_all(some: dict[str, tuple[str, ...]], every: Iterable[str]) -> list[Any]:
    """Parameters (lowering, formats): of some lowerings some formats, and all of every lowering with `exhaustive`."""
    rest = [pytest.param(name, FORMATS, id=f"{name}, all", marks=pytest.mark.exhaustive) for name in every]
    return [*(pytest.param(*each, id=each[0]) for each in some.items()), *rest]


@pytest.mark.parametrize(("lowering", "formats"), some_and_all({LEAST: OF_LESSER}, LESSER))
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


@pytest.mark.parametrize(("lowering", "formats"), some_and_all(SOME_PRODUCTS, LOWERINGS))
def test_products_are_right_in_each_lowering(lowering: str, formats: tuple[str, ...]) -> None:
    python_with(lowering, PRODUCT_TESTS, *formats)


@pytest.mark.skipif(HAS_BYTE_PERMUTATIONS, reason="this CPU has them: test_dequantize and test_formats run as they are")
def test_weights_are_right_by_permutations_of_bytes() -> None:
    python_with("AVX-512 VNNI, with VBMI, GFNI and BF16", UNPACKING_TESTS)


@pytest.fixture(scope="module")
def models(model_file: ModelFile) -> list[Path]:
    return [model_file(types=recipe) for recipe in ("Q8_0", "Q4_K", "F16")]  # too narrow to come in parts


@pytest.fixture(scope="module")
def bits(models: list[Path]) -> Callable[[str], list[str]]:
    """Those of this CPU with pages of a type, model by model."""
    return cache(lambda kv_type: python("-c", LOGITS, kv_type, *models).splitlines())


@pytest.fixture(scope="module")
def usual_bits(models: list[Path], bits: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
    """Those of a CPU whose quantized activations are up to 127, as all but those with Winograd's inner product have.

    On such a CPU with AVX-512 VNNI, of no maker that is known, if this one has other activations.
    """
    if tuning().activation_int8_max == 127:
        return bits
    return cache(lambda kv_type: python_with("AVX-512 VNNI", LOGITS, kv_type, *models).splitlines())


OTHER_PAGES = [pytest.param(lowering, "f16", marks=pytest.mark.exhaustive) for lowering in LOWERINGS]
OTHER_PAGES += [pytest.param(lowering, "q8_0", marks=pytest.mark.exhaustive) for lowering in ALIKE]


@pytest.mark.parametrize(
    ("lowering", "kv_type"), [*(pytest.param(name, "q8_0", id=name) for name in CHOSEN), *OTHER_PAGES]
)
def test_models_have_the_same_bits_in_each_lowering(
    lowering: str,
    kv_type: str,
    models: list[Path],
    bits: Callable[[str], list[str]],
    usual_bits: Callable[[str], list[str]],
) -> None:
    """Pages of Q8_0 are multiplied as bytes; those of F16 are alike in most lowerings."""
    found = python_with(lowering, LOGITS, kv_type, *models).splitlines()
    if "Zen 4" not in lowering:
        assert found == usual_bits(kv_type)
    elif tuning().activation_int8_max == 120:
        assert found == bits(kv_type)
    else:  # no other CPU has these activations, which Q4_K and Q6_K are multiplied by
        assert found[::2] == bits(kv_type)[::2]


def test_largest_activations_are_127_but_for_winograds_inner_product() -> None:
    assert {(record.winograd, record.activation_int8_max) for record in RECORDS} == {(False, 127), (True, 120)}
