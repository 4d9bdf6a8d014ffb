"""Weights of GPTQ, AWQ and bitsandbytes are those of the layouts' definitions, in any chunks of rows."""

import json
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Barrier
from time import sleep
from typing import Any

import numpy as np
import pytest

from converters import convert
from converters.architectures.sources import stacked
from converters.checkpoint import Checkpoint
from converters.checkpoint.quantized import grouped
from converters.checkpoint.quantized.panels import PanelCache
from converters.checkpoint.quantized.words import BITS, unpacked
from edgellm.errors import ModelFileError
from support.checkpoint_numbers import encode
from support.families import CASES
from support.families.references import load_reference
from support.make_checkpoint import Stored, write_checkpoint, write_safetensors
from support.quantized_checkpoints import Quantize, write, write_pair
from support.quantized_weights import QuantizedModule, awq, awq_gemv, bnb_4bit, bnb_int8, gptq, stored

GPTQ: dict[str, Any] = {"quant_method": "gptq", "bits": 4, "group_size": 32}
AWQ: dict[str, Any] = {"quant_method": "awq", "bits": 4, "group_size": 32, "zero_point": True, "version": "gemm"}
BNB: dict[str, Any] = {"quant_method": "bitsandbytes", "load_in_4bit": True}
SHUFFLED = np.random.default_rng(0).permutation(96).tolist()


def checkpoint_of(folder: Path, tensors: Mapping[str, Stored], settings: Mapping[str, Any] | None) -> Checkpoint:
    """A checkpoint of these tensors alone."""
    write_safetensors(folder / "model.safetensors", tensors)
    (folder / "config.json").write_text(json.dumps({"quantization_config": settings}))
    return Checkpoint.open(folder)


def check_rows(checkpoint: Checkpoint, module: QuantizedModule, name: str = "m.weight") -> None:
    """The weights, rounded to float32, in one chunk and in several; and no other tensor."""
    source = checkpoint.source(name, "t")
    wanted = module.weights.astype(np.float32).reshape(-1, module.weights.shape[-1])
    assert (source.shape, source.type) == (module.weights.shape, "F32")
    assert checkpoint.tensors.keys() == {name}
    last = len(wanted)
    for rows in ((0, last), (0, 1), (last - 1, last), (last // 2 - 3, last // 2 + 6), (5, last - 5)):
        assert np.array_equal(source.rows(*rows).view(np.float32), wanted[slice(*rows)])


@pytest.mark.parametrize("v2", [False, True])
@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize(
    "layout",
    [
        {"group": 32, "sym": False},
        {"group": 32, "order": SHUFFLED, "sym": False},
        {"group": 64, "g_idx": False},
        {"group": -1, "sym": False, "g_idx": False},
        {"group": 128},
    ],
)
def test_gptq(tmp_path: Path, bits: int, v2: bool, layout: dict[str, Any]) -> None:
    """Groups of all kinds: also one of fewer columns than the others (64), and one of more than there are (128)."""
    module = gptq("m", 64, 96, bits, v2=v2, **layout)
    settings = {"quant_method": "gptq", "bits": bits, "group_size": layout["group"], "desc_act": "order" in layout}
    if v2:
        settings["checkpoint_format"] = "gptq_v2"
    check_rows(checkpoint_of(tmp_path, module.tensors, settings), module)


def test_integers_of_3_bits_go_on_in_the_next_word() -> None:
    """Numbers 10 and 21 as `pack` of auto_gptq/nn_modules/qlinear/qlinear_cuda.py puts them there."""
    numbers = [1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7, 6, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2]
    words = [0, 0, 0]
    for word, (first, shift) in enumerate([(0, 0), (11, 1), (22, 2)]):
        for i in range(10):
            words[word] |= numbers[first + i] << 3 * i + shift
    words[0] |= numbers[10] << 30 & 0xFFFFFFFF
    words[1] |= numbers[10] >> 2 | numbers[21] << 31 & 0xFFFFFFFF
    words[2] |= numbers[21] >> 1
    assert unpacked(np.array([words], np.uint32), 3).tolist() == [numbers]


def test_a_zero_point_of_0_borrows_from_the_next_in_its_word(tmp_path: Path) -> None:
    """GPTQModel subtracts from words what it adds to them in `convert_gptq_v1_to_v2_format_module`."""
    module = gptq("m", 64, 96, sym=False, v2=True)
    assert not all(module.tensors["m.qzeros"].data & 0x0F)
    words = module.tensors["m.qzeros"].data.view("<u4").reshape(3, 8) - np.uint32(0x11111111)
    module.tensors["m.qzeros"] = stored(words.view(np.int32))
    check_rows(checkpoint_of(tmp_path, module.tensors, GPTQ), module)


@pytest.mark.parametrize(("packing", "v2"), [("auto_round:auto_gptq", False), ("auto_round:gptqmodel", True)])
def test_gptq_of_autoround(tmp_path: Path, packing: str, v2: bool) -> None:
    module = gptq("m", 64, 96, 2, sym=False, v2=v2)
    plan = {"quant_method": "intel/auto-round", "packing_format": packing, "bits": 2, "group_size": 32}
    check_rows(checkpoint_of(tmp_path, module.tensors, plan), module)


def test_modules_of_gptq_may_have_other_bits_than_the_rest(tmp_path: Path) -> None:
    """With g_idx (GPTQModel: `dynamic`) the shapes say it, without it AutoRound's extra_config."""
    module = gptq("m", 32, 96, 8)
    check_rows(checkpoint_of(tmp_path, module.tensors, GPTQ), module)
    module = gptq("m", 32, 96, 8, g_idx=False)
    plan = {"quant_method": "auto-round", "packing_format": "auto_round:auto_gptq", "bits": 4, "group_size": 32}
    settings = {**plan, "extra_config": {"m": {"bits": 8}, "other": {"bits": 16}}}
    check_rows(checkpoint_of(tmp_path, module.tensors, settings), module)


@pytest.mark.parametrize("settings", [AWQ, {**AWQ, "version": "GEMM"}, {"quant_method": "awq", "group_size": 32}])
def test_awq(tmp_path: Path, settings: dict[str, Any]) -> None:
    module = awq("m", 64, 96)
    check_rows(checkpoint_of(tmp_path, module.tensors, settings), module)


def test_awq_of_autoround(tmp_path: Path) -> None:
    module = awq("m", 64, 96, 96)
    settings = {"quant_method": "auto-round", "packing_format": "auto_round:auto_awq", "bits": 4, "group_size": -1}
    check_rows(checkpoint_of(tmp_path, module.tensors, settings), module)


def test_modules_of_autoround_may_have_other_groups_than_the_rest(tmp_path: Path) -> None:
    """Groups of 32 columns in place of 96 that the settings name for the rest; AWQ at 8 bits is refused by name."""
    rest: dict[str, Any] = {"quant_method": "auto-round", "bits": 4, "group_size": 96}
    own = {"extra_config": {"m": {"group_size": 32}}}
    for packing, module in (("auto_gptq", gptq("m", 64, 96, g_idx=False)), ("auto_awq", awq("m", 64, 96))):
        plan = {**rest, "packing_format": f"auto_round:{packing}"}
        check_rows(checkpoint_of(tmp_path, module.tensors, {**plan, **own}), module)
        with pytest.raises(ModelFileError, match="3 groups, which are not those of 96 columns in groups of 96"):
            checkpoint_of(tmp_path, module.tensors, plan)
    with pytest.raises(ModelFileError, match=r"m is quantized by AWQ at 8 bits .*, and only 4 are read"):
        checkpoint_of(tmp_path, module.tensors, {**plan, "extra_config": {"m": {"bits": 8}}})


@pytest.mark.parametrize("group", [32, 64, 128])
def test_awq_gemv(tmp_path: Path, group: int) -> None:
    module = awq_gemv("m", 40, 384, group)
    settings = {**AWQ, "version": "gemv", "group_size": group}
    check_rows(checkpoint_of(tmp_path, module.tensors, settings), module)


@pytest.mark.parametrize("kind", ["nf4", "fp4"])
@pytest.mark.parametrize("nested", [0, 4])
@pytest.mark.parametrize(("shape", "block"), [((32, 128), 64), ((24, 96), 64), ((21, 33), 64), ((2, 12, 40), 128)])
def test_bitsandbytes_4bit(tmp_path: Path, kind: str, nested: int, shape: tuple[int, ...], block: int) -> None:
    """Blocks that end within rows, rows that begin within bytes, and a stack of matrices."""
    module = bnb_4bit("m.weight", shape, kind, block, nested)
    check_rows(checkpoint_of(tmp_path, module.tensors, BNB), module)


def test_bitsandbytes_4bit_in_bytes_of_another_type(tmp_path: Path) -> None:
    """As `bnb_4bit_quant_storage` stores them."""
    module = bnb_4bit("m.weight", (32, 64))
    codes = module.tensors["m.weight"]
    module.tensors["m.weight"] = Stored("BF16", (512, 1), codes.data)
    check_rows(checkpoint_of(tmp_path, module.tensors, BNB), module)


def test_bitsandbytes_int8(tmp_path: Path) -> None:
    module = bnb_int8("m", 30, 50)
    check_rows(checkpoint_of(tmp_path, module.tensors, {"load_in_8bit": True}), module)


@pytest.mark.parametrize("dtype", ["F32", "BF16"])
def test_scales_of_other_float_types(tmp_path: Path, dtype: str) -> None:
    module = gptq("m", 64, 96)
    rng = np.random.default_rng(0)
    scales = (rng.integers(1, 256, (3, 64)) / 4096).astype(np.float32)  # exact in BF16, too
    before = module.tensors["m.scales"].data.view(np.float16).reshape(3, 64).astype(np.float64)
    module.tensors["m.scales"] = Stored(dtype, (3, 64), encode(scales, dtype))
    weights = module.weights / before.repeat(32, 0).T * scales.astype(np.float64).repeat(32, 0).T
    check_rows(checkpoint_of(tmp_path, module.tensors, GPTQ), QuantizedModule(module.tensors, weights))


@pytest.mark.parametrize(
    ("file", "settings", "make"),
    [
        ("quantize_config.json", {"bits": 4, "group_size": 32, "desc_act": False}, gptq),
        ("quant_config.json", {"w_bit": 4, "q_group_size": 32, "zero_point": True, "version": "GEMM"}, awq),
    ],
)
def test_settings_beside_config_json(
    tmp_path: Path, file: str, settings: dict[str, Any], make: Callable[[str, int, int], QuantizedModule]
) -> None:
    """Older checkpoints have them in a file of their own."""
    module = make("m", 64, 96)
    (tmp_path / file).write_text(json.dumps(settings))
    check_rows(checkpoint_of(tmp_path, module.tensors, None), module)


def test_settings_of_the_text_model(tmp_path: Path) -> None:
    module = gptq("m", 64, 96)
    write_safetensors(tmp_path / "model.safetensors", module.tensors)
    (tmp_path / "config.json").write_text(json.dumps({"text_config": {"quantization_config": GPTQ}}))
    check_rows(Checkpoint.open(tmp_path), module)


@pytest.mark.parametrize("make", [gptq, awq])
def test_large_matrices_are_read_in_panels(
    tmp_path: Path, make: Callable[[str, int, int], QuantizedModule], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A panel here has 32 rows, the last one 8. The rows are the same, and each panel is read once."""
    monkeypatch.setattr(grouped, "PANEL_BYTES", 1)
    module = make("m", 200, 96)
    checkpoint = checkpoint_of(tmp_path, module.tensors, GPTQ if make is gptq else AWQ)
    check_rows(checkpoint, module)
    source, reads = checkpoint.source("m.weight", "t"), list[int]()
    read = grouped.GroupedMatrix._read

    def counted(self: grouped.GroupedMatrix, at: int) -> Any:
        reads.append(at)
        return read(self, at)

    monkeypatch.setattr(grouped.GroupedMatrix, "_read", counted)
    fresh = Checkpoint.open(tmp_path).source("m.weight", "t")
    for first in range(0, 200, 5):
        assert np.array_equal(fresh.rows(first, first + 5), source.rows(first, first + 5))
    assert reads == list(range(0, 200, 32))


def test_panels_up_to_some_bytes_are_kept() -> None:
    cache, reads = PanelCache[int](10), list[int]()

    def read(number: int) -> int:
        reads.append(number)
        return number * 10

    def get(number: int, nbytes: int) -> int:
        return cache.get(number, nbytes, partial(read, number))

    assert [get(1, 4), get(2, 4), get(1, 4)] == [10, 20, 10]
    assert reads == [1, 2]
    get(3, 4)
    assert [get(2, 4), get(1, 4)] == [20, 10]
    assert reads == [1, 2, 3, 1]
    assert [get(4, 50), get(4, 50)] == [40, 40]
    assert reads == [1, 2, 3, 1, 4]


def test_one_thread_reads_a_panel_and_the_others_wait() -> None:
    cache, reads, together = PanelCache[int](10), list[int](), Barrier(4)

    def read() -> int:
        reads.append(1)
        sleep(0.02)
        return 7

    def get(_: int) -> int:
        together.wait()
        return cache.get("key", 4, read)

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(get, range(4))) == [7] * 4
    assert reads == [1]


def test_what_reading_holds_is_told(tmp_path: Path) -> None:
    """Four panels, here the whole matrix: 4 bits of a weight, and a scale, a zero point and a place of a group."""
    source = checkpoint_of(tmp_path, gptq("m", 64, 96).tensors, GPTQ).source("m.weight", "t")
    nbytes = (64 * 96 // 2 + 3 * 64 * 2 + 3 * 64 // 2 + 96 * 4) // 64 * 64  # whole bytes of a row
    assert source.held == stacked("s", [source, source]).held == 4 * nbytes


def mixed_order(name: str, rows: int, columns: int) -> QuantizedModule:
    """GPTQ with act-order and zero points."""
    order = np.random.default_rng(columns).permutation(columns).tolist()
    return gptq(name, rows, columns, order=order, sym=False)


_PAIRS: list[tuple[Quantize, dict[str, Any], dict[str, Any]]] = [
    (mixed_order, GPTQ, {"family": "qwen2"}),
    (lambda name, rows, columns: gptq(name, rows, columns, 3, -1), {**GPTQ, "bits": 3}, {}),
    (awq, AWQ, {"family": "qwen2"}),
    (lambda name, rows, columns: bnb_4bit(f"{name}.weight", (rows, columns), nested=16), BNB, {}),
    (bnb_int8, {"quant_method": "bitsandbytes", "load_in_8bit": True}, {"family": "qwen2"}),
]


@pytest.mark.parametrize(("quantize", "settings", "options"), _PAIRS)
def test_the_file_is_that_of_the_checkpoint_in_floats(
    tmp_path: Path, quantize: Quantize, settings: dict[str, Any], options: dict[str, Any]
) -> None:
    """Byte by byte, so that logits are the same; lm_head, embedding and norms are not quantized."""
    quantized, exact = write_pair(tmp_path, quantize, settings, **options)
    for mix in ("F16", "Q8_0"):
        convert(quantized, tmp_path / "quantized.gguf", mix, threads=2, force=True)
        convert(exact, tmp_path / "exact.gguf", mix, threads=1, force=True)
        assert (tmp_path / "quantized.gguf").read_bytes() == (tmp_path / "exact.gguf").read_bytes()


def test_experts_of_their_own_and_a_quantized_output(tmp_path: Path) -> None:
    """Mixtral: each expert's matrices are quantized, the router is not."""
    config = CASES["mixtral"].config
    tensors, exact = dict[str, Stored](), dict[str, Stored]()
    for name, each in load_reference("mixtral").tensors.items():
        if name.endswith((".w1.weight", ".w2.weight", ".w3.weight", "_proj.weight", "lm_head.weight")):
            module = gptq(name.removesuffix(".weight"), *each.shape)
            tensors |= module.tensors
            exact[name] = stored(module.weights.astype(np.float32))
        else:
            tensors[name] = exact[name] = Stored("BF16", each.shape, each.bfloat16(name))
    write(tmp_path / "a" / "model", "qwen2", {**config, "quantization_config": GPTQ}, tensors)
    write(tmp_path / "b" / "model", "qwen2", config, exact)
    for folder in ("a", "b"):
        convert(tmp_path / folder / "model", tmp_path / f"{folder}.gguf", "Q8_0", threads=2)
    assert (tmp_path / "a.gguf").read_bytes() == (tmp_path / "b.gguf").read_bytes()


def test_biases_of_zeros_that_the_model_does_not_have(tmp_path: Path) -> None:
    """AutoGPTQ adds them to all modules; where the model has biases, zeros or not, they are kept."""
    for family in ("llama", "qwen2"):
        quantized, exact = write_pair(tmp_path / family, with_bias, GPTQ, family=family)
        convert(quantized, tmp_path / "quantized.gguf", "F16", threads=1, force=True)
        convert(exact, tmp_path / "exact.gguf", "F16", threads=1, force=True)
        assert (tmp_path / "quantized.gguf").read_bytes() == (tmp_path / "exact.gguf").read_bytes()


def with_bias(name: str, rows: int, columns: int) -> QuantizedModule:
    module = gptq(name, rows, columns)
    bias = {f"{name}.bias": stored(np.zeros(rows, np.float16))}
    return QuantizedModule(bias | module.tensors, module.weights)


def test_a_bias_that_is_not_of_zeros_has_no_place(tmp_path: Path) -> None:
    def quantize(name: str, rows: int, columns: int) -> QuantizedModule:
        module = gptq(name, rows, columns)
        bias = {f"{name}.bias": stored(np.full(rows, name.endswith("up_proj"), np.float16))}
        return QuantizedModule(bias | module.tensors, module.weights)

    quantized, _ = write_pair(tmp_path, quantize, GPTQ)
    with pytest.raises(ModelFileError, match=r"up_proj.bias has no place in this llama model"):
        convert(quantized, tmp_path / "out.gguf", threads=1)


_ASYMMETRIC = partial(gptq, sym=False)
_NOTES: list[tuple[Quantize, dict[str, Any], str, str]] = [
    (gptq, GPTQ, "Q8_0", "GPTQ at 4 bits in groups of 32, so the new file is at best that good; --type Q4_0 holds"),
    (gptq, GPTQ, "Q4_0", "so the new file is at best that good; Q4_0 holds its weights exactly"),
    (_ASYMMETRIC, GPTQ, "F16", "GPTQ at 4 bits in groups of 32, so the new file is at best that good; --type Q5_K_M"),
    (_ASYMMETRIC, GPTQ, "Q8_0", "so the new file is at best that good; --type Q5_K_M is large enough for it"),
    (_ASYMMETRIC, GPTQ, "Q4_0", "GPTQ at 4 bits in groups of 32, so the new file is at best that good"),
    (bnb_int8, BNB, "Q8_0", "bitsandbytes at 8 bits with a scale for each row, so the new file is at best that good"),
    (bnb_int8, BNB, "BF16", "each row, so the new file is at best that good; --type Q8_0 is large enough for it"),
]


@pytest.mark.parametrize(("quantize", "settings", "mix", "words"), _NOTES)
def test_plan_and_report_say_what_was_lost(
    tmp_path: Path, quantize: Quantize, settings: dict[str, Any], mix: str, words: str
) -> None:
    quantized, exact = write_pair(tmp_path, quantize, settings)
    note = convert(quantized, tmp_path / "out.gguf", mix, dry_run=True).source_note
    assert note == convert(quantized, tmp_path / "out.gguf", mix, threads=1).source_note
    assert note.startswith("the checkpoint is quantized already, by ") and words in note
    assert note.endswith(("that good", "is large enough for it", "exactly")) and (";" in note) == (";" in words)
    assert convert(exact, tmp_path / "exact.gguf", mix, threads=1).source_note == ""


def test_a_note_names_the_most_weights_first(tmp_path: Path) -> None:
    def quantize(name: str, rows: int, columns: int) -> QuantizedModule:
        return gptq(name, rows, columns, 8 if "down" in name else 4, 16 if "self_attn" in name else 32)

    quantized, _ = write_pair(tmp_path, quantize, GPTQ)
    words = "GPTQ at 4 bits in groups of 16, 4 bits in groups of 32, 8 bits in groups of 32"
    found = Checkpoint.open(quantized).quantization
    assert found == (words, 4)


def test_settings_that_are_for_no_weight_are_told(tmp_path: Path) -> None:
    """The weights are floats, as in a checkpoint whose quantization was undone but for its settings."""
    folder = write_checkpoint(tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    for settings, told in ((GPTQ, "the checkpoint's settings of a quantization (gptq) are for none of its"), ({}, "")):
        (folder / "config.json").write_text(json.dumps({**config, "quantization_config": settings}))
        note = convert(folder, tmp_path / "out.gguf", dry_run=True).source_note
        assert note.startswith(told) and bool(note) == bool(told)
