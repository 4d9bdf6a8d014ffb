"""`--type dynamic`: the choice of types, the limits, and the whole recipe on small models."""

from itertools import product
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from converters.conversion import Conversion
from converters.dynamic.allocation import Choice, allocate, lower_hull
from converters.dynamic.settings import DynamicSettings, parse_size
from converters.from_gguf import prepare_quantize
from edgellm import convert, quantize
from edgellm.errors import EdgeLLMError, EdgeLLMWarning, OptionError, UnsupportedModelError
from edgellm.gguf import GGUFFile
from support.model_file import FamilyFile, ModelFile

NARROW = {"IQ4_NL", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"}
TEXT = "The cat sat on the mat, and the dog lay by the door. " * 40

_tensors = st.lists(
    st.lists(st.tuples(st.integers(1, 60), st.integers(0, 100)), min_size=1, max_size=4), min_size=1, max_size=4
)


@given(tensors=_tensors, more=st.integers(0, 200))
def test_the_choice_fits_and_is_within_a_step_of_the_best(tensors: list[list[tuple[int, int]]], more: int) -> None:
    choices = {str(i): [Choice(str(k), *pair) for k, pair in enumerate(each)] for i, each in enumerate(tensors)}
    room = more + sum(min(choice.nbytes for choice in of) for of in choices.values())
    chosen = allocate(choices, room)
    assert sum(choice.nbytes for choice in chosen.values()) <= room
    assert all(chosen[name] in of for name, of in choices.items())
    possible = [each for each in product(*choices.values()) if sum(choice.nbytes for choice in each) <= room]
    best = min(sum(choice.loss for choice in each) for each in possible)
    hulls = [lower_hull(of) for of in choices.values()]
    largest_step = max(a.loss - b.loss for hull in hulls for a, b in zip([hull[0], *hull], hull, strict=False))
    slack = sum(max(0, hull[0].loss - min(choice.loss for choice in hull)) for hull in hulls)
    assert sum(choice.loss for choice in chosen.values()) <= best + min(slack, len(choices) * largest_step)


def test_a_hull_leaves_out_what_gains_less_than_a_larger_type() -> None:
    small, between, large, worse = (
        Choice(*each) for each in (("a", 1, 9.0), ("b", 2, 8.0), ("c", 3, 1.0), ("d", 4, 2.0))
    )
    assert lower_hull([worse, large, between, small]) == [small, large]


def test_the_largest_gain_for_a_byte_goes_first() -> None:
    choices = {
        "steep": [Choice("Q2_K", 10, 5.0), Choice("Q4_K", 20, 1.0), Choice("Q8_0", 40, 0.5)],
        "flat": [Choice("Q2_K", 10, 1.0), Choice("Q4_K", 20, 0.5)],
    }
    types = {room: {name: each.type for name, each in allocate(choices, room).items()} for room in (20, 30, 40, 60)}
    assert types[20] == {"steep": "Q2_K", "flat": "Q2_K"}
    assert types[30] == {"steep": "Q4_K", "flat": "Q2_K"}
    assert types[40] == {"steep": "Q4_K", "flat": "Q4_K"}
    assert types[60] == {"steep": "Q8_0", "flat": "Q4_K"}


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [("4.5GB", 4_500_000_000), ("800 MB", 800_000_000), ("4GiB", 4 << 30), ("123", 123), ("2k", 2000)],
)
def test_sizes(text: str, nbytes: int) -> None:
    assert parse_size(text) == nbytes


@pytest.mark.parametrize("text", ["", "GB", "-1GB", "4,5GB", "1e3", "4 G B", "4XB"])
def test_other_sizes_are_refused(text: str) -> None:
    with pytest.raises(OptionError, match=r"give a size such as 4\.5GB"):
        parse_size(text)


@pytest.fixture(scope="module")
def source(model_file: ModelFile) -> Path:
    """A model of floats whose rows are multiples of 256."""
    return model_file(types="F32", width=256, ffn=256)


def test_the_file_is_within_its_limit_and_uses_it(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.gguf"
    with GGUFFile.open(source) as file:
        weights = sum(tensor.size for tensor in file.tensors.values())
    ends: list[float] = []
    since = monotonic()
    task = prepare_quantize(
        source, out, "dynamic", bits=4.5, calibration=TEXT, measuring=lambda *_: ends.append(monotonic())
    )
    report = task.run()
    assert ends[-1] - ends[0] < report.seconds < monotonic() - since  # measuring is part of it
    assert 4.2 < report.bits_per_weight <= 4.5
    limit = int(weights * 5 / 8) + 60_000
    report = quantize(source, out, "dynamic", size=str(limit), calibration=TEXT, force=True)
    assert 0.95 * limit < out.stat().st_size <= limit


def test_what_the_model_needs_most_gets_the_most_bits(source: Path, tmp_path: Path) -> None:
    """Of two matrices of one shape, one of which is multiplied by nearly nothing behind it."""
    with GGUFFile.open(source) as file:
        name = "blk.0.ffn_down.weight"
        offset, nbytes = file.tensors[name].offset, file.tensors[name].nbytes
    data = bytearray(source.read_bytes())
    data[offset : offset + nbytes] = (np.frombuffer(data[offset : offset + nbytes], np.float32) * 1e-3).tobytes()
    weak = tmp_path / "weak.gguf"
    weak.write_bytes(data)
    report = quantize(weak, tmp_path / "out.gguf", "dynamic", bits=4.5, calibration=TEXT)
    bits = {tensor.name: tensor.nbytes / tensor.weights for tensor in report.tensors}
    assert bits[name] < bits["blk.1.ffn_down.weight"]


def test_types_that_the_user_names_stay(source: Path, tmp_path: Path) -> None:
    report = quantize(
        source, tmp_path / "out.gguf", "dynamic", tensor_types=["attn_q=Q8_0"], bits=4.5, calibration=TEXT
    )
    assert {tensor.type for tensor in report.tensors if "attn_q.w" in tensor.name} == {"Q8_0"}


def test_each_stack_of_experts_gets_a_type_that_its_rows_fill(model_file: ModelFile, tmp_path: Path) -> None:
    """With rows of 256 and with narrower ones; all experts of a stack get the same."""
    for columns, types in ((256, {"Q2_K", "IQ3_S", "Q3_K", "IQ4_XS", "Q4_K", "Q5_K", "Q6_K", "Q8_0"}), (96, NARROW)):
        experts = {"arch": "qwen3moe", "types": "F32 experts", "experts": 4, "used": 2}
        source = model_file(**experts, width=256, ffn=columns)
        report = quantize(source, tmp_path / "out.gguf", "dynamic", bits=6.5, calibration=TEXT, force=True)
        chosen = {tensor.name: tensor.type for tensor in report.tensors if "_exps" in tensor.name}
        assert len(chosen) == 6 and {chosen[name] for name in chosen if "down" in name} <= types
        assert report.bits_per_weight <= 6.5


def test_what_is_not_computed_keeps_the_type_of_the_mix(family_file: FamilyFile, tmp_path: Path) -> None:
    """The last layer is for multi-token prediction: nothing tells what it costs."""
    source, types = family_file("qwen3_5"), []
    for mix, asked in (("Q4_K_M", {}), ("dynamic", {"bits": 12, "calibration": TEXT * 20})):
        report = quantize(source, tmp_path / f"{mix}.gguf", mix, **asked)  # type: ignore[arg-type]
        types.append({tensor.name: tensor.type for tensor in report.tensors})
    layers = 1 + max(int(name.split(".")[1]) for name in types[0] if name.startswith("blk."))
    last = [name for name in types[0] if name.startswith(f"blk.{layers - 1}.")]
    assert any("nextn" in name for name in last)
    assert [types[1][name] for name in last] == [types[0][name] for name in last]
    assert {types[1][name] for name in types[0] if "ffn_up" in name and name not in last} == {"Q8_0"}


def test_weights_that_are_no_numbers(model_file: ModelFile, tmp_path: Path) -> None:
    """Those of an expert that no token chooses are told by their place; others make the logits NaN."""
    experts = {"arch": "qwen3moe", "types": "F32 experts", "experts": 4, "used": 2, "router": "zero"}
    source, name = model_file(**experts, width=256, ffn=256), "blk.0.ffn_up_exps.weight"
    with GGUFFile.open(source) as file:
        offset = file.tensors[name].offset
    for expert, told in (
        (3, rf"tensor {name}, matrix 3, row 2, column 5: holds nan instead of a number; get a whole copy"),
        (0, r"damaged\.gguf: computes NaN or infinite logits; edgellm verify may tell why"),
    ):
        data, damaged = bytearray(source.read_bytes()), tmp_path / "damaged.gguf"
        at = offset + 4 * ((expert * 256 + 2) * 256 + 5)
        data[at : at + 4] = np.float32(np.nan).tobytes()
        damaged.write_bytes(data)
        with pytest.raises(EdgeLLMError, match=told):
            quantize(damaged, tmp_path / "out.gguf", "dynamic", bits=6, calibration=TEXT)
    assert not (tmp_path / "out.gguf").exists()


def test_a_limit_that_is_too_small_is_told_before_tensors_are_measured(source: Path, tmp_path: Path) -> None:
    """With the least that is accepted, which is near the size of the file that it makes."""

    def prepared(**limit: Any) -> Conversion:
        return prepare_quantize(source, tmp_path / "out.gguf", "dynamic", calibration=TEXT, measuring=told, **limit)

    def told(done: int, total: int) -> None:
        raise InterruptedError

    limits: list[tuple[dict[str, Any], str, type]] = [({"bits": 1.5}, "bits", float), ({"size": "7"}, "size", str)]
    for limit, option, kind in limits:
        with pytest.raises(OptionError, match=rf"allow --{option} [\d.]+\w* at least") as refused:
            prepared(**limit)
        least = str(refused.value).split(f"--{option} ")[1].split()[0]
        with pytest.raises(InterruptedError):
            prepared(**{option: kind(least)})
        digits = least.rstrip("kMGTB")
        with pytest.raises(OptionError, match="at least"):
            prepared(**{option: kind(f"{float(digits) - 0.01:.2f}{least[len(digits) :]}")})


@given(nbytes=st.integers(1, 10**14))
def test_the_least_size_that_is_named_is_accepted(nbytes: int) -> None:
    settings = DynamicSettings(1, None, TEXT, lambda done, total: None, None)
    assert nbytes <= parse_size(settings.least(nbytes, 1, 0).removeprefix("--size ")) <= 1.01 * nbytes


def test_nothing_is_measured_where_the_largest_types_fit(source: Path, tmp_path: Path) -> None:
    limits: list[dict[str, Any]] = [{"bits": 12.0}, {"size": "1GB"}]
    for limit in limits:
        job = prepare_quantize(
            source, tmp_path / "out.gguf", "dynamic", **limit, calibration=TEXT, measuring=lambda *_: pytest.fail()
        )
        assert {tensor.type.name for tensor in job.tensors} == {"F32", "Q8_0"}


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"type": "dynamic"}, "needs one of --size"),
        ({"type": "dynamic", "size": "1GB", "bits": 4.0, "calibration": TEXT}, "needs one of --size"),
        ({"type": "dynamic", "bits": 4.0}, "needs --calibration"),
        ({"type": "dynamic", "bits": 0.5, "calibration": TEXT}, "1 to 32"),
        ({"type": "Q4_K_M", "bits": 4.0}, "belong to --type dynamic"),
    ],
)
def test_wrong_settings_are_refused(source: Path, tmp_path: Path, given: dict[str, object], problem: str) -> None:
    with pytest.raises(OptionError, match=problem):
        quantize(source, tmp_path / "out.gguf", **given)  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_convert_says_where_it_is(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"convert to BF16, and give that file to `edgellm quantize"):
        convert(tmp_path, tmp_path / "out.gguf", "dynamic")


def test_a_quantized_source_is_refused_before_tensors_are_measured(source: Path, tmp_path: Path) -> None:
    """Also one whose types are those that tensors have before any is chosen; types that the user names may stay."""
    quantized, out = tmp_path / "q4_k_m.gguf", tmp_path / "out.gguf"
    quantize(source, quantized, "Q4_K_M")
    with pytest.raises(UnsupportedModelError, match=r"tensors are quantized already.*--requantize"):
        prepare_quantize(
            quantized, out, "dynamic", bits=5, calibration=TEXT, measuring=lambda *_: pytest.fail("measured")
        )
    with pytest.warns(EdgeLLMWarning):  # the source is worse than floats, or all tensors keep their types
        quantize(quantized, out, "dynamic", bits=5, calibration=TEXT, requantize=True)
