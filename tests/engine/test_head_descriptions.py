"""The head of a file: what it is made of, the order of its ops, and what is refused while the model stays."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from edgellm.arch import describe, describe_head, head_kind
from edgellm.arch.description import Description
from edgellm.arch.head import Head
from edgellm.engine.build_program import build_program
from edgellm.engine.outputs import OutputSettings
from edgellm.errors import ModelFileError, UnsupportedModelError
from edgellm.gguf import GGUFFile
from support import gguf_bytes as raw
from support.gguf_bytes import RawTensor
from support.gguf_parts import GGUFParts
from support.heads import HEADS
from support.model_file import FamilyFile
from support.op_extents import out_of_bounds
from support.op_hazards import ops_that_mix_rows, ops_without_barrier

CASE = "glm4_5_air"
Change = Callable[[dict[str, RawTensor]], None]


def described(path: Path) -> tuple[Description, Head | None]:
    with GGUFFile.open(path) as file:
        model = describe(file)
        return model, describe_head(file, model)


@pytest.mark.parametrize("name", HEADS)
def test_ops_of_a_head_read_what_was_written_before(family_file: FamilyFile, name: str) -> None:
    with GGUFFile.open(family_file(name)) as file:
        head = describe_head(file, describe(file))
        assert head and head.source == "mtp" and head.chains_normed
        for outputs in (OutputSettings(hidden=True), OutputSettings(residual=True)):
            program = build_program(head.model, "f16", outputs=outputs)
            assert not list(ops_without_barrier(program))
            assert not list(ops_that_mix_rows(program))
            assert not list(out_of_bounds(program, "f16", file.tensors))


def changed(family_file: FamilyFile, folder: Path, change: Change) -> Path:
    """A copy of the case with other tensors; `change` gets those of its last layer, without its name."""
    parts = GGUFParts.read(family_file(CASE))
    prefix = next(name for name in parts.tensors if name.endswith("nextn.eh_proj.weight")).split("nextn")[0]
    last = {name.removeprefix(prefix): each for name, each in parts.tensors.items() if name.startswith(prefix)}
    change(last)
    others = {name: each for name, each in parts.tensors.items() if not name.startswith(prefix)}
    named = {prefix + name: replace(each, name=prefix + name) for name, each in last.items()}
    path = folder / "changed.gguf"
    path.write_bytes(replace(parts, tensors=others | named).build())
    return path


def without(name: str) -> Change:
    return lambda tensors: tensors.pop(name) and None


def reshaped(name: str, like: str) -> Change:
    def change(tensors: dict[str, RawTensor]) -> None:
        tensors[name] = tensors[like]

    return change


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (without("nextn.hnorm.weight"), r"has no tensor blk\.\d\.nextn\.hnorm\.weight"),
        (without("nextn.enorm.weight"), r"has no tensor blk\.\d\.nextn\.enorm\.weight"),
        (without("attn_k.weight"), r"has no tensor blk\.\d\.attn_k\.weight"),
        (without("ffn_gate_inp.weight"), r"has no tensor blk\.\d\.ffn_gate_inp\.weight"),
        (reshaped("nextn.eh_proj.weight", "attn_q.weight"), r"tensor blk\.\d\.nextn\.eh_proj\.weight has shape"),
        (reshaped("nextn.shared_head_norm.weight", "attn_k.bias"), r"nextn\.shared_head_norm\.weight has shape"),
    ],
)
def test_a_broken_head_is_refused_and_its_model_is_not(
    family_file: FamilyFile, tmp_path: Path, change: Change, problem: str
) -> None:
    with GGUFFile.open(changed(family_file, tmp_path, change)) as file:
        model = describe(file)
        with pytest.raises(ModelFileError, match=problem):
            describe_head(file, model)
        assert head_kind(file, model) is None


@pytest.mark.parametrize("last", [0, -1, 1 << 30])
@pytest.mark.parametrize("key", ["attention.head_count", "attention.head_count_kv", "expert_feed_forward_length"])
def test_sizes_of_the_last_layer_are_those_of_its_tensors(
    family_file: FamilyFile, tmp_path: Path, key: str, last: int
) -> None:
    """The model does not read them, so it opens whatever they are."""
    parts, path = GGUFParts.read(family_file(CASE)), tmp_path / "sizes.gguf"
    with GGUFFile.open(family_file(CASE)) as file:
        name, blocks = f"{file.architecture}.{key}", file.get_int(f"{file.architecture}.block_count")
        numbers = [*file.get_integers(name, blocks)[:-1], last]
    pair = raw.pair(name, raw.ARRAY, raw.array(raw.I32, [raw.number(raw.I32, each) for each in numbers]))
    path.write_bytes(replace(parts, pairs=parts.pairs | {name: pair}).build())
    with GGUFFile.open(path) as file:
        model = describe(file)
        with pytest.raises(ModelFileError) as error:
            describe_head(file, model)
    assert "\n" not in str(error.value)


def test_a_head_has_the_matrices_of_its_model_where_the_file_has_none_for_it(
    family_file: FamilyFile, tmp_path: Path
) -> None:
    model, head = described(changed(family_file, tmp_path, without("nextn.shared_head_norm.weight")))
    assert head
    shared = [(head.model.embedding, model.embedding), (head.model.output.weight, model.output.weight)]
    shared += [(head.model.output_norm.weight, model.output_norm.weight)]
    assert all(own == theirs for own, theirs in shared)


def test_a_file_with_the_head_alone_is_refused(family_file: FamilyFile, tmp_path: Path) -> None:
    parts, path = GGUFParts.read(family_file(CASE)), tmp_path / "mtp.gguf"
    layer = next(name for name in parts.tensors if name.endswith("nextn.eh_proj.weight")).split("nextn")[0]
    kept = {name: each for name, each in parts.tensors.items() if name.startswith(layer) or "blk." not in name}
    path.write_bytes(replace(parts, tensors=kept).build())
    with pytest.raises(UnsupportedModelError, match=r"only the layer for multi-token prediction.*whole model"):
        described(path)


def test_a_file_without_the_layer_has_no_head(family_file: FamilyFile, tmp_path: Path) -> None:
    assert described(changed(family_file, tmp_path, dict.clear))[1] is None
    assert described(family_file("qwen2moe"))[1] is None
