"""The description of an EAGLE-3 head: what it reads of its target, and which files are refused."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from converters import convert
from edgellm import EdgeLLMError, UnsupportedModelError
from edgellm.arch import describe
from edgellm.arch.description import Description
from edgellm.arch.eagle3 import read_eagle3_head
from edgellm.engine.build_program import build_program
from edgellm.engine.feature_encoder import build_encoder_program
from edgellm.engine.outputs import OutputSettings
from edgellm.gguf import GGUFFile
from support import gguf_bytes as raw
from support.eagle3_heads import HEADS, TARGET, Reference, write_head
from support.gguf_parts import GGUFParts
from support.make_checkpoint import write_checkpoint
from support.op_extents import out_of_bounds
from support.op_hazards import ops_that_mix_rows, ops_without_barrier

I64 = 27


class Files(NamedTuple):
    """The target as it is described, and the files and checkpoints of heads by their names in HEADS."""

    target: Description
    heads: dict[str, Path]
    folders: dict[str, Path]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Files]:
    root = tmp_path_factory.mktemp("heads")
    target, file = write_checkpoint(root / "target", **TARGET), root / "target.gguf"
    convert(target, file, "F16")
    heads, folders = {name: root / f"{name}.gguf" for name in HEADS}, {name: root / name for name in HEADS}
    for name, head in HEADS.items():
        convert(write_head(folders[name], head), heads[name], "F16", target=file)
    with GGUFFile.open(file) as opened:
        yield Files(describe(opened), heads, folders)


@pytest.mark.parametrize("name", HEADS)
def test_a_head(name: str, files: Files) -> None:
    spec, target = HEADS[name], files.target
    with GGUFFile.open(files.heads[name]) as file:
        head = read_eagle3_head(file, target)
        assert head.taps == tuple(layer - 1 for layer in spec.taps or (2, 4, 5))
        assert not head.chains_normed
        assert head.encoder and (head.encoder.norm is not None) == spec.norm_before_fc
        assert head.encoder.projection.weight.shape == (spec.width, 3 * target.width)
        assert head.model.output.weight.shape == (spec.draft_vocab, spec.width)
        assert (head.model.width, head.model.vocab) == (spec.width, target.vocab)
        assert head.model.context_length == target.context_length
        assert (head.model.embedding is target.embedding) == (not spec.own_embedding)
        assert (head.model.output is target.output) == (not spec.own_output)
        assert head.model.entry and head.model.entry.normed_residual == spec.norm_before_residual
        attention = head.model.layers[0].attention
        assert attention and attention.norm is None
        ids = Reference(files.folders[name], spec, {}).ids
        assert np.array_equal(np.arange(target.vocab) if head.tokens is None else head.tokens, ids)
        assert (head.tokens is None) == (spec.draft_vocab == target.vocab)


@pytest.mark.parametrize("name", HEADS)
def test_ops_of_a_head_read_what_was_written_before(name: str, files: Files) -> None:
    with GGUFFile.open(files.heads[name]) as file:
        head = read_eagle3_head(file, files.target)
        assert head.encoder
        of_pairs = build_program(head.model, "f16", outputs=OutputSettings(residual=True))
        for program in (of_pairs, build_encoder_program(head.encoder)):
            assert not list(ops_without_barrier(program))
            assert not list(ops_that_mix_rows(program))
            assert not list(out_of_bounds(program, "f16", file.tensors))


def test_a_head_is_no_model(files: Files) -> None:
    with (
        GGUFFile.open(files.heads["midlayer"]) as file,
        pytest.raises(UnsupportedModelError, match="holds an EAGLE-3 head, not a model; --draft names it") as error,
    ):
        describe(file)
    assert "\n" not in str(error.value)


def ids(*values: int) -> bytes:
    return np.array([*values, *range(len(values), 96)], "<i8").tobytes()


def layers(*numbers: int) -> bytes:
    items = [raw.number(raw.I32, each) for each in numbers]
    return raw.pair("eagle3.target_layers", raw.ARRAY, raw.array(raw.I32, items))


KEYS = {
    "eagle3.target_layers": {
        layers(0, 2, 5): "not numbers of the target's layers from 1 on",
        layers(2, 2, 5): "not numbers of the target's layers from 1 on",
        layers(2, 4, 9): "is a head for a model of at least 9 layers, and this one has 8; choose a head",
        layers(-5, 4, 5): "not numbers of the target's layers from 1 on",
        layers(2, 4): "eagle3.target_layers",
        layers(2, 4, 5, 6): "eagle3.target_layers",
        b"": "eagle3.target_layers",
    },
    "eagle3.target_hidden_size": {
        raw.u32_pair("eagle3.target_hidden_size", 128): "is a head for a model of width 128, and this one has 64; ",
        b"": "eagle3.target_hidden_size",
    },
    "eagle3.block_count": {raw.u32_pair("eagle3.block_count", 2): "heads of 2 layers are not supported"},
    "eagle3.embedding_length": {
        raw.u32_pair("eagle3.embedding_length", 192): "heads 3 times as wide as their target are"
    },
    "eagle3.attention.sliding_window": {raw.u32_pair("eagle3.attention.sliding_window", 8): "with a window"},
    "eagle3.attention.head_count_kv": {
        raw.u32_pair("eagle3.attention.head_count_kv", 3): "4 attention heads cannot share 3 KV heads"
    },
    "tokenizer.ggml.tokens": {
        raw.strings_pair("tokenizer.ggml.tokens", ["a"]): "is a head for a model of 1 token, and this one has 320; "
    },
    "eagle3.norm_before_fc": {
        raw.pair("eagle3.norm_before_fc", raw.BOOL, b"\x01"): "has no tensor enc.output_norm.weight"
    },
}
"""Other pairs of a key, and a part of the refusal; none leaves the key out."""


@pytest.mark.parametrize(("key", "pair"), [(key, pair) for key, pairs in KEYS.items() for pair in pairs])
def test_keys_that_are_refused(key: str, pair: bytes, files: Files, tmp_path: Path) -> None:
    parts = GGUFParts.read(files.heads["midlayer"])
    pairs = {name: value for name, value in parts.pairs.items() if name != key} | ({key: pair} if pair else {})
    assert KEYS[key][pair] in refusal(replace(parts, pairs=pairs), files.target, tmp_path)


TENSORS: dict[str, dict[str, tuple[Any, str]]] = {
    "d2t": {
        "beyond the tokens": ({"data": ids(320)}, "does not hold different ids of the target's 320 tokens"),
        "below 0": ({"data": ids(-1)}, "does not hold different ids"),
        "twice": ({"data": ids(7)}, "does not hold different ids"),
        "far": ({"data": ids(1 << 40)}, "does not hold different ids"),
        "another type": ({"kind": 28}, "tensor d2t is F64 [96], not a row of I64"),
        "two rows": ({"dims": (48, 2)}, "tensor d2t is I64 [2, 48], not a row of I64"),
        "fewer": ({"dims": (95,), "data": ids()[:-8]}, "tensor output.weight has shape [96, 64]"),
    },
    "output.weight": {"none": ({}, "has a tensor d2t without a tensor output.weight")},
    "fc.weight": {"none": ({}, "has no tensor fc.weight"), "narrow": ({"dims": (96, 64)}, "fc.weight has shape")},
    "blk.0.attn_norm_2.weight": {"none": ({}, "has no tensor blk.0.attn_norm_2.weight")},
    "blk.0.attn_q.weight": {"narrow": ({"dims": (64, 64)}, "attn_q.weight has shape [64, 64]")},
}
"""Tensors with other fields, and a part of the refusal; without fields, it is left out."""


@pytest.mark.parametrize(("name", "case"), [(name, case) for name, cases in TENSORS.items() for case in cases])
def test_tensors_that_are_refused(name: str, case: str, files: Files, tmp_path: Path) -> None:
    parts, (fields, reason) = GGUFParts.read(files.heads["midlayer"]), TENSORS[name][case]
    tensors = {each: tensor for each, tensor in parts.tensors.items() if each != name}
    if fields:
        tensors[name] = replace(parts.tensors[name], **fields)
    assert reason in refusal(replace(parts, tensors=tensors), files.target, tmp_path)


def test_an_unknown_tensor_is_refused(files: Files, tmp_path: Path) -> None:
    parts = GGUFParts.read(files.heads["midlayer"])
    more = replace(parts.tensors["blk.0.attn_norm.weight"], name="blk.0.attn_q_norm.weight")
    parts = replace(parts, tensors=parts.tensors | {"blk.0.attn_q_norm.weight": more})
    assert "blk.0.attn_q_norm.weight has no place" in refusal(parts, files.target, tmp_path)


def refusal(parts: GGUFParts, target: Description, folder: Path) -> str:
    """The one line that says why a file is refused."""
    path = folder / "head.gguf"
    path.write_bytes(parts.build())
    with GGUFFile.open(path) as file, pytest.raises(EdgeLLMError) as error:
        read_eagle3_head(file, target)
    assert "\n" not in str(error.value)
    return str(error.value)
