"""Write tiny F32 GGUF files of any architecture that edgellm knows, to be described: their weights mean nothing."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np

from edgellm.arch import describe
from edgellm.arch.architectures import ARCHITECTURES
from edgellm.arch.blocks import Attention, FeedForward
from edgellm.arch.description import Description
from edgellm.arch.mixture import MixtureOfExperts, Router
from edgellm.gguf import GGUFFile

DescribeFamily = Callable[..., Description]
"""`described_family(architecture, keys, tensors)`: the description of a file as `write_family` makes it."""

SIZES = {
    "vocab": 8,
    "width": 32,
    "heads": 2,
    "kv_heads": 1,
    "key_dim": 16,
    "q_width": 32,
    "k_width": 16,
    "v_width": 16,
    "qkv_width": 64,
    "attention_width": 32,
    "ffn": 48,
    "gate_up": 96,
    "experts": 4,
    "expert_ffn": 24,
    "expert_gate_up": 48,
    "shared_ffn": 24,
    "q_rank": 8,
    "plain_dim": 12,
    "head_value_dim": 16,
    "kv_b_width": 56,
}
"""The dimensions of all files."""

LAYERS = 4

KEYS: dict[str, Any] = {
    "block_count": LAYERS,
    "context_length": 128,
    "embedding_length": SIZES["width"],
    "feed_forward_length": SIZES["ffn"],
    "attention.head_count": SIZES["heads"],
    "attention.head_count_kv": SIZES["kv_heads"],
    "attention.layer_norm_epsilon": 1e-5,
    "attention.layer_norm_rms_epsilon": 1e-5,
}
"""The keys of all files, without the architecture's prefix."""


XIELU = {
    "/xielu.alpha_p": [0.5, 100.0, 0.5, 0.5],
    "/xielu.alpha_n": [0.25] * 4,
    "/xielu.beta": [0.5] * 4,
    "/xielu.eps": [-1e-6] * 4,
}
"""Keys of Apertus."""


def write_family(
    path: Path,
    architecture: str,
    keys: Mapping[str, Any] | None = None,
    tensors: Mapping[str, tuple[int, ...] | list[float] | None] | None = None,
) -> Path:
    """A file of `LAYERS` layers with the tensors of the architecture's facts, biases that are optional left out.

    Those of experts are left out where `keys` count none and the architecture also has other feed-forwards. `keys` are
    added or replace those of KEYS; None leaves one out. Keys that begin with "/" have no prefix. `tensors` are shapes,
    or values of a vector, of more tensors or in place of some; None leaves one out. The weights count up from 0 in each
    tensor.
    """
    writer = gguf.GGUFWriter(path, architecture)
    for key, value in (KEYS | dict(keys or {})).items():
        add_key(writer, key[1:] if key.startswith("/") else f"{architecture}.{key}", value)
    shapes = _shapes(architecture, with_experts="expert_count" in (keys or {}))
    for name, shape in (shapes | dict(tensors or {})).items():
        if isinstance(shape, list):
            writer.add_tensor(name, np.array(shape, np.float32))
        elif shape is not None:
            writer.add_tensor(name, np.arange(np.prod(shape), dtype=np.float32).reshape(shape))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _shapes(architecture: str, with_experts: bool) -> dict[str, Any]:
    facts = ARCHITECTURES[architecture]
    is_kept = with_experts or "ffn_up" not in facts.tensors
    shapes: dict[str, Any] = {"token_embd.weight": (SIZES["vocab"], SIZES["width"]), "output_norm.weight": (32,)}
    for layer in range(LAYERS):
        for tensor in facts.block_tensors:
            if not is_kept and "experts" in tensor.shape:
                continue
            shape = tuple(each if isinstance(each, int) else SIZES[each] for each in tensor.shape)
            shapes[f"blk.{layer}.{tensor.name}"] = shape
            if tensor.gguf in facts.biases:
                shapes[f"blk.{layer}.{tensor.gguf}.bias"] = shape[:-1] or shape
    return shapes


def add_key(writer: gguf.GGUFWriter, key: str, value: Any) -> None:
    """Add a key with the type of the value; None adds nothing."""
    if isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, int):
        (writer.add_uint32 if value >= 0 else writer.add_int32)(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    elif isinstance(value, str):
        writer.add_string(key, value)
    elif value is not None:
        writer.add_array(key, value)


def describe_family(path: Path, *arguments: Any) -> Description:
    """The description of a file that is written to `path`; the arguments are those of `write_family`."""
    return describe(GGUFFile.open(write_family(path, *arguments)))


EXPERTS: dict[str, Any] = {
    "expert_count": SIZES["experts"],
    "expert_used_count": 2,
    "expert_feed_forward_length": SIZES["expert_ffn"],
}
"""The keys of files with experts."""


def without_experts(*dense: int) -> dict[str, None]:
    """What to leave out, that the layers `dense` have no experts, and the others no other feed-forward."""
    experts = (
        "ffn_gate_inp",
        "exp_probs_b",
        *(f"ffn_{x}_{of}" for x in ("gate", "up", "down") for of in ("exps", "shexp")),
    )
    stems = {i: experts if i in dense else ("ffn_gate", "ffn_up", "ffn_down") for i in range(LAYERS)}
    return {f"blk.{i}.{stem}.{kind}": None for i in stems for stem in stems[i] for kind in ("weight", "bias")}


def routers(model: Description) -> list[Router | None]:
    """The router of each layer; None for layers without experts."""
    parts = [layer.feed_forward for layer in model.layers]
    return [part.router if isinstance(part, MixtureOfExperts) else None for part in parts]


def attentions(model: Description) -> list[Attention]:
    """The attention of each layer."""
    return [layer.attention for layer in model.layers if layer.attention]


def feed_forward(model: Description) -> FeedForward:
    """The feed-forward of the first layer."""
    found = model.layers[0].feed_forward
    assert isinstance(found, FeedForward)
    return found


def windows(model: Description) -> list[int | None]:
    """The window of each layer."""
    return [attention.window for attention in attentions(model)]


def with_rope(model: Description) -> list[bool]:
    """Whether each layer has RoPE."""
    return [attention.rope is not None for attention in attentions(model)]
