"""Every type that `assign_types` chooses is the one that llama.cpp's quantizer gives the same tensor."""

from collections.abc import Iterator, Sequence
from itertools import cycle, product
from pathlib import Path
from typing import NamedTuple

import gguf
import numpy as np
import pytest

from converters.gguf_source import gguf_sources
from converters.quant_mixes import QUANT_MIXES, assign_types
from converters.tensors import Source
from edgellm.gguf import GGUFFile
from kquants.ggml import NAMED_TYPES
from support.quantizer import Job, llama_cpp_types

pytestmark = pytest.mark.slow

WIDTHS = ((256, 512), (288, 256), (256, 320), (320, 288), (172, 64), (64, 172), (768, 2048))
"""Model width and FFN width: rows that fill blocks of 256, of 32 only, and of neither."""

FOR_DENSE = [mix for mix in QUANT_MIXES if mix != "MXFP4"]
"""llama.cpp makes MXFP4 only experts."""
NEED_IMATRIX = ("Q2_K_S",)
"""llama.cpp makes these only with an importance matrix."""


class Model(NamedTuple):
    arch: str
    layers: int
    tied: bool
    heads: int
    kv_heads: int
    widths: tuple[int, int]


def grid() -> Iterator[Model]:
    """Each architecture with each depth, tied or not; head counts and widths take turns."""
    heads, widths = cycle(((8, 8), (8, 2), (8, 1), (12, 4), (14, 2), (10, 4))), cycle(WIDTHS)
    for arch, layers, tied in product(("llama", "qwen2", "qwen3"), (1, 2, 7, 8, 17, 32), (True, False)):
        yield Model(arch, layers, tied, *next(heads), next(widths))


def write(path: Path, model: Model) -> Path:
    """A model whose heads have two values each and whose matrices have few rows: types depend on neither."""
    width, ffn = model.widths
    writer = gguf.GGUFWriter(path, model.arch)
    writer.add_block_count(model.layers)
    writer.add_context_length(64)
    writer.add_embedding_length(width)
    writer.add_feed_forward_length(ffn)
    writer.add_head_count(model.heads)
    writer.add_head_count_kv(model.kv_heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(4)
    for name, shape in tensors(model):
        writer.add_tensor(name, np.zeros(shape, np.float32 if len(shape) == 1 else np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def tensors(model: Model) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Names and shapes of all tensors."""
    width, ffn = model.widths
    yield "token_embd.weight", (4, width)
    yield "output_norm.weight", (width,)
    yield "rope_freqs.weight", (8,)
    if not model.tied:
        yield "output.weight", (4, width)
    for at in (f"blk.{i}." for i in range(model.layers)):
        yield at + "attn_norm.weight", (width,)
        for kind, rows in (("q", model.heads), ("k", model.kv_heads), ("v", model.kv_heads)):
            yield f"{at}attn_{kind}.weight", (2 * rows, width)
            if model.arch == "qwen2":
                yield f"{at}attn_{kind}.bias", (2 * rows,)
        yield at + "attn_output.weight", (4, width)
        yield at + "ffn_norm.weight", (width,)
        yield at + "ffn_gate.weight", (4, width)
        yield at + "ffn_up.weight", (4, width)
        yield at + "ffn_down.weight", (4, ffn)


def sources(model: Model) -> list[Source]:
    def rows(first: int, last: int) -> np.ndarray:
        raise AssertionError("a plan needs no weights")

    return [Source(name, shape, "F16", rows) for name, shape in tensors(model)]


def compare(
    folder: Path, cases: Sequence[tuple[Model, str, Sequence[tuple[str, str]]]], has_imatrix: bool = False
) -> None:
    """Compare the types of all tensors, for cases (model, mix, overrides)."""
    files = {model: write(folder / f"{i}.gguf", model) for i, model in enumerate({case[0] for case in cases})}
    jobs = []
    for model, mix, overrides in cases:
        numbers = [(pattern, NAMED_TYPES[kind].number) for pattern, kind in overrides]
        columns = [(name, shape[-1]) for name, shape in tensors(model)] if has_imatrix or mix in NEED_IMATRIX else []
        jobs.append(Job(str(files[model]), QUANT_MIXES[mix].file_type, numbers, columns))
    for (model, mix, overrides), theirs in zip(cases, llama_cpp_types(jobs), strict=True):
        planned = assign_types(sources(model), mix, model.arch, overrides, has_imatrix)
        assert {p.source.name: p.type.name for p in planned} == theirs, (model, mix, overrides)


@pytest.mark.parametrize("layers", sorted({model.layers for model in grid()}))
def test_quant_mixes_give_the_types_that_llama_cpp_gives(layers: int, tmp_path: Path) -> None:
    models = [model for model in grid() if model.layers == layers]
    compare(tmp_path, [(model, mix, ()) for model in models for mix in FOR_DENSE])


@pytest.mark.parametrize("layers", [7, 17])
def test_types_with_an_importance_matrix_are_those_that_llama_cpp_gives(layers: int, tmp_path: Path) -> None:
    models = [model for model in grid() if model.layers == layers and model.arch == "llama"]
    compare(tmp_path, [(model, mix, ()) for model in models for mix in FOR_DENSE], has_imatrix=True)


@pytest.mark.parametrize("arch", ["llama", "qwen2", "qwen3"])
def test_models_of_80_layers_have_a_larger_attn_v_where_llama_cpp_calls_them_70b(arch: str, tmp_path: Path) -> None:
    models = [Model(arch, 80, False, 8, kv_heads, (256, 256)) for kv_heads in (8, 2)]
    compare(tmp_path, [(model, mix, ()) for model in models for mix in FOR_DENSE if mix[0] != "F"])


def write_nemotron(path: Path, kinds: str) -> Path:
    """A Nemotron-H with these layers: M is Mamba-2, * attention, - a feed-forward."""
    arch, width, writer = "nemotron_h", 256, gguf.GGUFWriter(path, "nemotron_h")
    sizes = {"conv_kernel": 4, "state_size": 16, "group_count": 1, "inner_size": width, "time_step_rank": 16}
    for name, value in {"block_count": len(kinds), "context_length": 64, "embedding_length": width}.items():
        writer.add_uint32(f"{arch}.{name}", value)
    for name, value in sizes.items():
        writer.add_uint32(f"{arch}.ssm.{name}", value)
    writer.add_feed_forward_length([512 if kind == "-" else 0 for kind in kinds])
    writer.add_head_count(8)
    writer.add_head_count_kv([2 if kind == "*" else 0 for kind in kinds])
    writer.add_layer_norm_eps(1e-5)
    shapes = {"token_embd": (4, width), "output": (4, width)}
    of_kind = {
        "M": {"ssm_in": (4, width), "ssm_out": (4, width)},
        "*": {f"attn_{x}": (4, width) for x in ("q", "k", "v", "output")},
        "-": {"ffn_up": (4, width), "ffn_down": (4, 512)},
    }
    shapes |= {f"blk.{i}.{name}": shape for i, kind in enumerate(kinds) for name, shape in of_kind[kind].items()}
    for name, shape in shapes.items():
        writer.add_tensor(f"{name}.weight", np.zeros(shape, np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_feed_forwards_are_counted_where_not_all_layers_have_one(tmp_path: Path) -> None:
    source = write_nemotron(tmp_path / "in.gguf", "MM-*M-M--M-M*-M-")
    mixes = [mix for mix in FOR_DENSE if mix not in ("F16", "BF16", *NEED_IMATRIX)]
    every = llama_cpp_types([Job(str(source), QUANT_MIXES[mix].file_type) for mix in mixes])
    for mix, theirs in zip(mixes, every, strict=True):
        with GGUFFile.open(source) as file:
            ours = {p.source.name: p.type.name for p in assign_types(gguf_sources(file), mix, "nemotron_h")}
        assert ours == theirs, mix


@pytest.mark.parametrize(
    "overrides",
    [
        [("ffn_down", "Q6_K")],
        [("attn_[qk]", "Q8_0"), ("attn", "Q5_0")],
        [(r"blk\.[13]\.ffn_(up|gate)", "IQ4_NL"), ("^token_embd", "F16"), ("output", "Q3_K")],
        [(".", "Q5_K")],
    ],
)
def test_overrides_give_the_types_that_llama_cpp_gives(overrides: list[tuple[str, str]], tmp_path: Path) -> None:
    models = [Model("qwen2", 4, True, 8, 2, widths) for widths in WIDTHS]
    compare(tmp_path, [(model, mix, overrides) for model in models for mix in ("Q4_K_M", "Q2_K", "Q8_0")])
