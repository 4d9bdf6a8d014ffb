"""Quantization mixes without llama.cpp: types worked out by hand, the notes to the user, and refusals."""

import re
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from converters.quant_mixes import QUANT_MIXES, assign_types, mix_name, parse_override
from converters.tensors import PlannedTensor, Source
from edgellm.errors import OptionError
from edgellm.gguf.filetypes import FILE_TYPES
from kquants import ENCODED_FORMATS, FORMATS

Shapes = dict[str, tuple[int, ...]]


def no_rows(first: int, last: int) -> NDArray[np.uint8]:
    raise AssertionError("a plan needs no weights")


def model(layers: int, width: int = 256, ffn: int = 512, kv: int = 64, vocab: int = 32, tied: bool = False) -> Shapes:
    """Names and shapes of a llama."""
    shapes: Shapes = {"token_embd.weight": (vocab, width), "output_norm.weight": (width,)}
    shapes |= {} if tied else {"output.weight": (vocab, width)}
    for at in (f"blk.{i}." for i in range(layers)):
        shapes |= {at + "attn_norm.weight": (width,), at + "ffn_norm.weight": (width,)}
        shapes |= {at + "attn_q.weight": (width, width), at + "attn_output.weight": (width, width)}
        shapes |= {at + "attn_k.weight": (kv, width), at + "attn_v.weight": (kv, width)}
        shapes |= {at + "ffn_gate.weight": (ffn, width), at + "ffn_up.weight": (ffn, width)}
        shapes |= {at + "ffn_down.weight": (width, ffn)}
    return shapes


def planned(
    shapes: Shapes, mix: str, overrides: Sequence[tuple[str, str]] = (), arch: str = "llama"
) -> dict[str, PlannedTensor]:
    sources = [Source(name, shape, "BF16", no_rows) for name, shape in shapes.items()]
    return {p.source.name: p for p in assign_types(sources, mix, arch, overrides)}


def layers_with(found: dict[str, PlannedTensor], kind: str, name: str) -> list[int]:
    """The layers whose `kind` has the type `name`."""
    return [
        i for i in range(200) if f"blk.{i}.{kind}.weight" in found and found[f"blk.{i}.{kind}.weight"].type.name == name
    ]


def test_q4_k_m_gives_more_bits_to_both_ends_and_every_third_layer_between() -> None:
    found = planned(model(16), "Q4_K_M")
    more = [0, 1, 4, 7, 10, 13, 14, 15]  # 16 / 8 = 2 at either end; between, 2 + 2, then every third
    assert layers_with(found, "attn_v", "Q6_K") == layers_with(found, "ffn_down", "Q6_K") == more
    assert layers_with(found, "attn_v", "Q4_K") == [i for i in range(16) if i not in more]
    assert len(layers_with(found, "attn_output", "Q4_K")) == len(layers_with(found, "ffn_gate", "Q4_K")) == 16
    assert (found["output.weight"].type.name, found["token_embd.weight"].type.name) == ("Q6_K", "Q4_K")


def test_a_tied_embedding_gets_what_the_output_would_get() -> None:
    assert planned(model(2, tied=True), "Q4_K_M")["token_embd.weight"].type.name == "Q6_K"
    assert planned(model(2, tied=True), "Q8_0")["token_embd.weight"].type.name == "Q8_0"
    assert planned(model(2, tied=True), "F16")["token_embd.weight"].type.name == "F16"


@pytest.mark.parametrize(("kv", "name"), [(256, "Q3_K"), (128, "Q3_K"), (64, "Q4_K"), (32, "Q4_K")])
def test_q2_k_depends_on_how_many_heads_share_attn_v(kv: int, name: str) -> None:
    assert layers_with(planned(model(2, kv=kv), "Q2_K"), "attn_v", name) == [0, 1]


@pytest.mark.parametrize("mix", QUANT_MIXES)
def test_norms_and_biases_are_f32_without_a_note_in_every_mix(mix: str) -> None:
    shapes = model(1, width=288) | {"blk.0.attn_q.bias": (288,), "rope_freqs.weight": (16,)}
    shapes |= {"blk.0.attn_q_norm.weight": (4, 64)}
    found = planned(shapes, mix, [("attn", "Q8_0")])
    vectors = [p for name, p in found.items() if "norm" in name or name in ("blk.0.attn_q.bias", "rope_freqs.weight")]
    assert [(p.type.name, p.note) for p in vectors] == [("F32", "")] * 6


def test_mxfp4_is_for_the_experts_or_else_for_all_layers() -> None:
    for tied in (False, True):
        dense = planned(model(2, tied=tied), "MXFP4")
        of_layers = {name for name, p in dense.items() if name.startswith("blk") and "norm" not in name}
        assert {name for name, p in dense.items() if p.type.name == "MXFP4"} == of_layers
        assert {p.type.name for name, p in dense.items() if name not in of_layers} == {"Q8_0", "F32"}
    assert mix_name("mxfp4") == mix_name("MXFP4_MOE") == "MXFP4"
    experts = {f"blk.1.ffn_{part}_exps.weight": (4, 32, 256) for part in ("gate", "up", "down")}
    shared = {"blk.1.ffn_up_shexp.weight": (32, 256), "blk.1.ffn_gate_inp.weight": (4, 256)}
    found = planned(model(2) | experts | shared, "MXFP4")
    assert {name for name, p in found.items() if p.type.name == "MXFP4"} == set(experts)
    assert found["blk.1.ffn_up_shexp.weight"].type.name == found["blk.0.ffn_up.weight"].type.name == "Q8_0"


def test_an_importance_matrix_changes_the_first_layers() -> None:
    sources = [Source(name, shape, "BF16", no_rows) for name, shape in model(16).items()]
    cases = (
        ("IQ4_XS", "Q5_K", "IQ4_XS", "IQ4_XS"),
        ("Q2_K_S", "Q4_K", "Q4_K", "Q2_K"),
        ("Q4_0", "Q4_0", "Q4_1", "Q4_0"),
    )
    for mix, *firsts, rest in cases:
        for has_imatrix, first in zip((False, True), firsts, strict=True):
            found = {p.source.name: p.type.name for p in assign_types(sources, mix, "llama", (), has_imatrix)}
            assert [found[f"blk.{i}.ffn_down.weight"] for i in range(16)] == [first] * 2 + [rest] * 14


def test_rows_that_do_not_fill_blocks_get_another_type_and_say_so() -> None:
    found = planned(model(8, width=288, ffn=300), "Q4_K_M")
    assert found["output.weight"].note == "rows of 288 are no multiple of 256: Q8_0 for Q6_K"
    assert found["blk.1.attn_v.weight"].note == "rows of 288 are no multiple of 256: Q5_0 for Q4_K"
    assert found["blk.1.ffn_down.weight"].note == "rows of 300 are no multiple of 256: F16 for Q4_K"
    types = [found[f"blk.{i}.ffn_down.weight"].type.name for i in range(8)]
    assert (types, found["output.weight"].type.name) == (["F16"] * 8, "Q8_0")


@pytest.mark.parametrize(
    ("wanted", "columns", "given"),
    [
        *(("Q2_K", 32, "Q4_0"), ("Q3_K", 32, "Q4_0"), ("Q5_K", 288, "Q5_1"), ("Q5_0", 300, "F16"), ("BF16", 7, "BF16")),
        *(("IQ4_XS", 288, "IQ4_NL"), ("NVFP4", 96, "IQ4_NL"), ("TQ2_0", 288, "Q4_0"), ("MXFP4", 48, "F16")),
    ],
)
def test_types_that_stand_in(wanted: str, columns: int, given: str) -> None:
    found = planned(model(1, width=columns), "Q8_0", [("attn_q", wanted)])
    assert found["blk.0.attn_q.weight"].type.name == given


def test_llama_3_1_8b_has_the_bits_per_weight_that_the_help_says() -> None:
    shapes = model(32, width=4096, ffn=14336, kv=1024, vocab=128256)
    for name, mix in QUANT_MIXES.items():
        found = planned(shapes, name).values()
        bits = 8 * sum(p.nbytes for p in found) / sum(p.source.row_count * p.source.columns for p in found)
        said = re.match(r"([\d.]+) bits per weight: .", mix.about)
        assert said and abs(float(said[1]) - bits) <= 0.05, (name, bits)


def test_each_mix_writes_the_number_of_its_name() -> None:
    written = {QUANT_MIXES[n].file_type: n for n in QUANT_MIXES}
    assert written.pop(38) == "MXFP4" and FILE_TYPES[38] == "MXFP4_MOE"
    assert written == {k: v for k, v in FILE_TYPES.items() if v in QUANT_MIXES}
    assert (QUANT_MIXES["Q4_K_M"].file_type, QUANT_MIXES["F16"].file_type, QUANT_MIXES["BF16"].file_type) == (15, 1, 32)


def test_the_order_is_that_of_the_sources() -> None:
    shapes = dict(reversed(model(3).items()))
    assert list(planned(shapes, "Q6_K")) == list(shapes)


def test_an_override_of_one_layer_leaves_the_others_alone() -> None:
    plain, found = planned(model(16), "Q4_K_M"), planned(model(16), "Q4_K_M", [(r"blk\.3\.ffn_down", "Q8_0")])
    changed = {name: p for name, p in found.items() if p.type != plain[name].type}
    assert list(changed) == ["blk.3.ffn_down.weight"]
    assert changed["blk.3.ffn_down.weight"].type.name == "Q8_0"
    assert changed["blk.3.ffn_down.weight"].note == r"Q8_0 by --tensor-type blk\.3\.ffn_down"


def test_the_first_override_that_matches_decides_in_any_case_and_mix() -> None:
    found = planned(model(2), "F16", [("BLK.1.ffn_down", "Q6_K"), ("ffn_", "Q5_K")])
    assert found["blk.1.ffn_down.weight"].type.name == "Q6_K"
    assert found["blk.0.ffn_down.weight"].type.name == found["blk.1.ffn_up.weight"].type.name == "Q5_K"
    assert found["blk.0.attn_q.weight"].type.name == "F16"


@pytest.mark.parametrize(
    ("overrides", "problem"),
    [
        ([("ffn_down", "Q9_X")], "choose one of"),
        ([("ffn_down", "Q8_K")], "choose one of"),
        ([("ffn_dwon", "Q6_K")], "matches no tensor"),
        ([("attn_norm", "Q6_K")], "matches no tensor"),
        ([("ffn", "Q4_K"), ("ffn_down", "Q6_K")], "give this one first"),
        ([("ffn_(down", "Q6_K")], "no regular expression"),
        ([("a{99999999999999999999}", "Q6_K")], "no regular expression"),
        ([("ffn\n\x1b2J", "Q6_K")], "matches no tensor"),
    ],
)
def test_overrides_that_cannot_be_meant_are_one_line(overrides: list[tuple[str, str]], problem: str) -> None:
    with pytest.raises(OptionError, match=problem) as caught:
        planned(model(1), "Q4_K_M", overrides)
    assert str(caught.value).isprintable()


def test_overrides_are_read_from_the_command_line() -> None:
    assert parse_override("ffn_down=q6_k") == ("ffn_down", "Q6_K")
    assert parse_override("(?=x)y=F16") == ("(?=x)y", "F16")
    for text in ("ffn_down", "=Q6_K", "ffn_down=", "", "ffn_down=Q9", "(=Q6_K"):
        with pytest.raises(OptionError):
            parse_override(text)


def test_all_types_that_come_out_are_among_those_that_a_tensor_can_be_given() -> None:
    shapes = [model(16, width=width, ffn=width) for width in (256, 288, 300)]
    out = {p.type.name for name in QUANT_MIXES for shape in shapes for p in planned(shape, name).values()}
    assert out <= set(ENCODED_FORMATS) <= set(FORMATS)


def test_an_unknown_mix_is_refused() -> None:
    with pytest.raises(OptionError, match='no "Q4_X"; choose one of: Q2_K_S, Q2_K'):
        planned(model(1), "Q4_X")


def test_any_architecture_is_quantized() -> None:
    shapes = model(2) | {"blk.0.ssm_conv1d.weight": (256, 4), "token_types.weight": (2, 256)}
    found = planned(shapes, "Q4_K_M", arch="mamba-of-tomorrow")
    assert found["blk.0.attn_q.weight"].type.name == "Q4_K"
    assert found["blk.0.ssm_conv1d.weight"].type.name == found["token_types.weight"].type.name == "F32"


@pytest.mark.parametrize(("mix", "kept"), [("Q4_K_M", "BF16"), ("F16", "F16"), ("BF16", "BF16")])
def test_small_matrices_that_no_mix_quantizes_keep_their_type(mix: str, kept: str) -> None:
    shapes = model(1) | {"per_layer_model_proj.weight": (64, 256), "altup_proj.weight": (3, 256, 256)}
    shapes |= {"blk.0.laurel_l.weight": (64, 256), "blk.0.altup_predict_coef.weight": (16, 4)}
    found = {name: planned(shapes, mix)[name].type.name for name in shapes}
    names = ("per_layer_model_proj.weight", "altup_proj.weight", "blk.0.laurel_l.weight")
    assert {found[name] for name in names} == {kept}
    assert found["blk.0.altup_predict_coef.weight"] == "F32"


def test_the_matrices_of_values_are_counted_where_layers_lack_them() -> None:
    """In llama.cpp, 16 of 24 matrices make the first and last eighth two each, and every third between counts."""
    shapes = {name: shape for name, shape in model(24).items() if not re.search(r"blk\.(\d*[258])\.attn_v", name)}
    layers = [i for i in range(24) if f"blk.{i}.attn_v.weight" in shapes]
    found = planned(shapes, "Q4_K_M")
    count = len(layers)
    more = [i for i in range(count) if i < count // 8 or i >= 7 * count // 8 or (i - count // 8) % 3 == 2]
    assert layers_with(found, "attn_v", "Q6_K") == [layers[i] for i in more]


def test_a_fused_matrix_of_q_k_and_v_has_the_type_of_values() -> None:
    fused = {name.replace("attn_q", "attn_qkv"): shape for name, shape in model(16).items()}
    shapes = {
        name: (384, 256) if "attn_qkv" in name else shape
        for name, shape in fused.items()
        if "attn_k." not in name and "attn_v." not in name
    }
    plain = planned(model(16, kv=64), "Q4_K_M")
    assert layers_with(planned(shapes, "Q4_K_M"), "attn_qkv", "Q6_K") == layers_with(plain, "attn_v", "Q6_K")
    # 256 rows of q and 64 of k: four heads share one, so that Q2_K gives more bits.
    assert layers_with(planned(shapes, "Q2_K"), "attn_qkv", "Q4_K") == list(range(16))


@pytest.mark.parametrize("name", ["blk.99999999999999.attn_v.weight", "blk..attn_v.weight", "", "blk.-1.x", "ω.weight"])
def test_names_that_no_model_has_get_a_type_all_the_same(name: str) -> None:
    assert planned({name: (64, 256)}, "Q4_K_M")[name].type.name in ("Q4_K", "F32")
