"""Which tensors a checkpoint may have, by which names, and in which order of rows."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from converters import convert
from converters.architectures import describe
from converters.architectures.unneeded import without_unneeded
from converters.checkpoint import Checkpoint
from converters.tensors import Source
from edgellm import Model
from edgellm.errors import EdgeLLMWarning, ModelFileError, UnsupportedModelError
from edgellm.gguf import GGUFFile
from support.make_checkpoint import write_checkpoint
from support.reference import reference_logits

Tensors = dict[str, NDArray[Any]]
SMALL = {"width": 64, "heads": 4, "kv_heads": 2, "head_dim": 32, "ffn": 96, "layers": 2, "dtype": "F32"}
# As transformers' convert_mistral_weights_to_hf.py has them, the other way round.
NATIVE = {
    "model.embed_tokens": "tok_embeddings",
    "model.norm": "norm",
    "lm_head": "output",
    "model.layers": "layers",
    "input_layernorm": "attention_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attention.wq",
    "self_attn.k_proj": "attention.wk",
    "self_attn.v_proj": "attention.wv",
    "self_attn.o_proj": "attention.wo",
    "mlp.gate_proj": "feed_forward.w1",
    "mlp.down_proj": "feed_forward.w2",
    "mlp.up_proj": "feed_forward.w3",
}


def native(name: str, tensor: NDArray[Any]) -> tuple[str, NDArray[Any]]:
    """A tensor of Hugging Face's layout in that of Mistral: within each head rows 0, 16, 1, 17, … of 32."""
    for old, new in NATIVE.items():
        name = name.replace(old, new)
    if ".wq." in name or ".wk." in name:
        order = [head + row for head in range(0, len(tensor), 32) for i in range(16) for row in (i, i + 16)]
        tensor = tensor[order]
    return name, np.ascontiguousarray(tensor)


def changed(folder: Path, change: Callable[[Tensors], Tensors], file: str = "model.safetensors") -> Path:
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    save_file(change(tensors), folder / file)
    return folder


def sources(folder: Path) -> dict[str, Source]:
    return {source.name: source for source in describe(Checkpoint.open(folder))[1]}


def everything(source: Source) -> bytes:
    return source.rows(0, source.row_count).tobytes()


def test_mistrals_own_layout_is_the_same_model(tmp_path: Path) -> None:
    ours = write_checkpoint(tmp_path / "hf", family="mistral", **SMALL)
    theirs = changed(
        write_checkpoint(tmp_path / "native", family="mistral", **SMALL),
        lambda tensors: {"rope.freqs": np.zeros(16, np.float32), **dict(native(*item) for item in tensors.items())},
        "consolidated.safetensors",
    )
    wanted, found = sources(ours), sources(theirs)
    assert found.keys() == wanted.keys()
    for name, source in wanted.items():
        assert everything(found[name]) == everything(source), name


def test_the_published_example_is_the_same_model(shared: Path, tmp_path: Path) -> None:
    folder = shared / "field" / "mistral-layout"
    if not folder.is_dir():
        pytest.skip("needs field/mistral-layout in the shared data folder")
    for name in ("hf", "consolidated-only"):
        convert(folder / name, tmp_path / f"{name}.gguf", "F16")
    with GGUFFile.open(tmp_path / "hf.gguf") as wanted, GGUFFile.open(tmp_path / "consolidated-only.gguf") as found:
        assert found.tensors.keys() == wanted.tensors.keys()
        for name, tensor in wanted.tensors.items():
            assert np.array_equal(found.tensors[name].data, tensor.data), name


def test_a_model_saved_without_its_head_has_no_prefix(tmp_path: Path) -> None:
    whole = write_checkpoint(tmp_path / "whole", family="qwen3", **SMALL)
    bare = changed(
        write_checkpoint(tmp_path / "bare", family="qwen3", **SMALL),
        lambda tensors: {name.removeprefix("model."): tensor for name, tensor in tensors.items()},
    )
    wanted = sources(whole)
    assert {name: everything(s) for name, s in sources(bare).items()} == {n: everything(s) for n, s in wanted.items()}


@pytest.mark.parametrize(
    ("rename", "expected"),
    [
        (lambda name: name.replace("model.layers", "transformer.h"), "tensor transformer.h.0.input_layernorm"),
        (lambda name: name.replace("self_attn.q_proj", "attention.wq"), "layers.0.attention.wq.weight has no place"),
        (lambda name: f"blk.{name}", r"a layout that is not known here \(blk.lm_head.weight, …\)"),
        (lambda name: name.replace("model.", "model.layers."), r"is not known here \(lm_head.weight, …\)"),
    ],
)
def test_other_layouts_are_refused(tmp_path: Path, rename: Callable[[str], str], expected: str) -> None:
    """Also those whose names the gguf package knows: what their rows are is not known."""
    folder = changed(
        write_checkpoint(tmp_path, **SMALL), lambda tensors: {rename(name): t for name, t in tensors.items()}
    )
    with pytest.raises((ModelFileError, UnsupportedModelError), match=expected) as error:
        sources(folder)
    assert "\n" not in str(error.value)


def test_a_qwen_in_mistrals_layout_is_refused(tmp_path: Path) -> None:
    folder = changed(
        write_checkpoint(tmp_path, family="qwen2", **SMALL),
        lambda tensors: dict(native(*item) for item in tensors.items()),
    )
    with pytest.raises(UnsupportedModelError, match="layout of Meta and Mistral, which cannot be converted for qwen2"):
        sources(folder)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("model.layers.0.self_attn.k_proj.k_scale", "scales of a KV cache"),
        ("model.layers.0.self_attn.v_scale", "scales of a KV cache"),
        ("model.layers.1.self_attn.kv_scale", "scales of a KV cache"),
        ("model.layers.0.self_attn.attn.k_scale", "scales of a KV cache"),
        ("model.layers.0.self_attn.v_proj.output_scale", "scales of a KV cache"),
        ("model.layers.0.mlp.up_proj.input_scale", "scales of activations"),
        ("v_head.summary.weight", "a head that rates texts"),
        ("medusa_head.0.1.weight", "heads that guess several tokens"),
        ("mtp.layers.0.mlp.up_proj.weight", "heads that guess several tokens"),
    ],
)
def test_what_no_text_needs_is_left_out_and_reported(tmp_path: Path, name: str, why: str) -> None:
    folder = write_checkpoint(tmp_path, **SMALL)
    wanted = sources(folder).keys()
    changed(folder, lambda tensors: {**tensors, name: np.ones(1, np.float32)})
    with pytest.warns(EdgeLLMWarning, match=f"1 tensor, such as {name}, left out: {why}") as seen:
        assert sources(folder).keys() == wanted
    assert len(seen) == 1


def test_a_checkpoint_with_a_plan_for_its_kv_cache_alone(tmp_path: Path) -> None:
    plan = {"quant_method": "compressed-tensors", "format": "dense", "kv_cache_scheme": {"num_bits": 8}}
    folder = write_checkpoint(tmp_path, **SMALL, config=(("quantization_config", plan),))
    changed(folder, lambda tensors: {**tensors, "model.layers.0.self_attn.v_scale": np.ones(1, np.float32)})
    with pytest.warns(EdgeLLMWarning, match="1 tensor, .*v_scale, left out"):
        assert sources(folder)["token_embd.weight"].type == "F32"


def test_what_mistrals_own_files_lack_is_reported(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path, family="mistral", **SMALL)
    for name in ("tokenizer.json", "tokenizer.model"):
        (folder / name).unlink()
    with pytest.raises(ModelFileError, match=r"no tokenizer\.json, tokenizer\.model or tekken\.json; get the one"):
        convert(folder, tmp_path / "out.gguf")
    (folder / "config.json").rename(folder / "params.json")
    with pytest.raises(ModelFileError, match=r"has no config\.json beside params\.json, which is Mistral's own"):
        convert(folder, tmp_path / "out.gguf")


@pytest.mark.parametrize("name", ["model.layers.0.mlp.up_proj.lora_A.weight", "model.layers.0.self_attn.sinks"])
def test_what_changes_a_text_is_not_left_out(tmp_path: Path, name: str) -> None:
    folder = changed(write_checkpoint(tmp_path, **SMALL), lambda tensors: {**tensors, name: np.ones(1, np.float32)})
    with pytest.raises(ModelFileError, match=f"tensor {name} has no place"):
        sources(folder)


def test_biases_of_qwen3_are_computed(tmp_path: Path) -> None:
    config = (("attention_bias", True),)
    folder = write_checkpoint(tmp_path / "in", family="qwen3", layers=1, config=config)
    with pytest.warns(EdgeLLMWarning, match="attention_bias is true, which llama.cpp does not know of qwen3"):
        convert(folder, tmp_path / "out.gguf", "F16")
    ids = [1, 5, 300, 77, 12]
    with Model.open(tmp_path / "out.gguf") as model:
        assert {f"blk.0.attn_{each}.bias" for each in ("q", "k", "v", "output")} < model.file.tensors.keys()
        ours = model.logits(ids)
    wanted = reference_logits(tmp_path / "out.gguf", ids)
    assert np.linalg.norm(ours - wanted) < 2e-3 * np.linalg.norm(wanted)


def test_a_long_name_is_searched_once() -> None:
    """Searching it from each of its places on would take minutes; a header has room for names of megabytes."""
    name = "vision" * (1 << 17)
    assert without_unneeded([name], Path("model"), 2, 0) == [name]
