"""How much of a trained model its quantized files keep, next to what llama.cpp's quantizer keeps of it."""

from pathlib import Path

import numpy as np
import pytest

from converters import convert, quantize
from converters.quant_mixes import QUANT_MIXES
from edgellm import Model
from edgellm.gguf import GGUFFile
from edgellm.perplexity import compare
from support.oracle import llama_cpp_logits
from support.quantizer import llama_cpp_quantize
from support.reference import divergence

pytestmark = pytest.mark.slow

CTX = 256  # what tale-13m was trained at


@pytest.fixture(scope="module")
def original(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """tale-13m as an F16 file."""
    path = tmp_path_factory.mktemp("quality") / "f16.gguf"
    convert(shared / "models/tale-13m", path, "F16")
    return path


# So many windows of the text that 1.03, and 1.1 of fewer, are two standard errors away or more.
@pytest.mark.parametrize(("mix", "most", "windows"), [("Q4_K_M", 1.03, 40), ("IQ4_XS", 1.0, 40), ("Q8_0", 1.1, 10)])
def test_a_quantized_model_is_as_near_to_its_original_as_llama_cpps(
    shared: Path, original: Path, mix: str, most: float, windows: int
) -> None:
    ours, theirs = original.with_name(f"ours-{mix}.gguf"), original.with_name(f"theirs-{mix}.gguf")
    convert(shared / "models/tale-13m", ours, mix)
    llama_cpp_quantize(original, theirs, QUANT_MIXES[mix].file_type)
    text = (shared / "models/tale-13m/held-out.txt").read_text()[: 4 * CTX * windows]
    with Model.open(original, threads=1) as reference:
        divergence = [_divergence(path, reference, text) for path in (ours, theirs)]
    assert divergence[0] <= most * divergence[1]


def test_llama_cpp_computes_the_same_from_types_without_a_mix_of_their_own(original: Path) -> None:
    path = original.with_name("types.gguf")
    kinds = ("IQ4_XS", "MXFP4", "NVFP4", "TQ2_0")
    quantize(original, path, "Q8_0", tensor_types=[f"blk.{i}={kind}" for i, kind in enumerate(kinds)])
    ids = [1, *map(int, np.random.default_rng(0).integers(3, 4000, 99))]
    with GGUFFile.open(path) as file:
        assert {tensor.type.name for tensor in file.tensors.values()} == {*kinds, "Q8_0", "F32"}
    with Model.open(path, threads=1) as model:
        ours = model.logits(ids)
    with Model.open(original, threads=1) as model:
        exact = model.logits(ids)
    theirs = llama_cpp_logits(path, ids)
    assert divergence(theirs, ours) < 0.01 * divergence(exact, ours)


def _divergence(path: Path, reference: Model, text: str) -> float:
    """The mean KL divergence of a file from the reference, on the second halves of a text's windows."""
    with Model.open(path, threads=1) as model:
        return compare(model, reference, text, ctx=CTX).kl
