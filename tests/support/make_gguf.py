"""Write small GGUF files of the llama, qwen2, qwen3, qwen3moe and qwen35 architectures with random weights, for tests.

    python -m support.make_gguf OUT.gguf        a 2-layer Q4_K model with a usable tokenizer

The weights mean nothing, but they are healthy: activations keep a size near 1 through the layers, attention
looks at some positions more than at others, and logits spread over a few units. Sizes are in elements.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type
from numpy.typing import NDArray

from support import recurrent_layers
from support.make_vocab import write_vocabulary
from support.random_weights import ENCODERS

# Tensor stems ("attn_v" of "blk.0.attn_v.weight") that differ from the type of the rest, which is at "".
RECIPES: dict[str, Mapping[str, str]] = {
    "F32": {"": "F32"},
    "F16": {"": "F16"},
    "BF16": {"": "BF16"},
    "Q8_0": {"": "Q8_0"},
    "Q4_K": {"": "Q4_K"} | dict.fromkeys(("attn_v", "ffn_down", "token_embd", "output"), "Q6_K"),
}
"""The types that have kernels of their own, and the usual mix."""

EXPERT_RECIPES: dict[str, Mapping[str, str]] = {
    "F32 experts": {"": "F32"},
    "BF16 experts": {"": "BF16"},
    "Q8_0 experts": {"": "Q8_0"},
    "Q4_K experts": {"": "Q4_K"} | dict.fromkeys(("attn_v", "ffn_down_exps", "token_embd"), "Q6_K"),
    "MXFP4 experts": {"": "Q8_0"} | dict.fromkeys(("ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"), "MXFP4"),
}
"""The same for models with experts."""


def _random_router(rng: np.random.Generator, experts: int, width: int) -> NDArray[np.float32]:
    """Logits of a spread near 1, so that experts change from token to token."""
    return (rng.standard_normal((experts, width)) * width**-0.5).astype(np.float32)


def _twins(rng: np.random.Generator, experts: int, width: int) -> NDArray[np.float32]:
    """Experts 2i and 2i + 1 have the same logit."""
    return _random_router(rng, experts, width)[np.arange(experts) // 2 * 2]


def _near_twins(rng: np.random.Generator, experts: int, width: int) -> NDArray[np.float32]:
    """Experts 2i and 2i + 1 have logits that differ in their last bits, one way or the other, or not at all."""
    rows = _twins(rng, experts, width)
    rows[1::2, 0] = np.nextafter(rows[1::2, 0], np.float32(9))
    return rows


ROUTERS = {
    "random": _random_router,
    "twins": _twins,
    "near twins": _near_twins,
    "zero": lambda rng, experts, width: np.zeros((experts, width), np.float32),
}
"""Weights of routers; with zeros all tokens have the same experts, the first ones."""


@dataclass(frozen=True)
class Spec:
    """What to write. `types` is a name in RECIPES or EXPERT_RECIPES, a mapping like their values, or one type for all
    matrices.

    `arch` "qwen2" gives the same model with biases on q, k and v, "qwen3" with norms of each head of q and k; both
    have RoPE type NEOX instead of NORM. "qwen3moe" is qwen3 with `experts` of width `ffn`, of which `used` compute a
    token; `router` is one of ROUTERS. "qwen35" has a gated DeltaNet in all but each second layer, see
    `support.recurrent_layers`. `kv_heads` and `ffn` may be given by layer; `value_dim` None is
    `head_dim`. `biases` gives all products of a layer one, `factors` all of them a tensor with a factor of each matrix,
    and one with a scale of inputs, as converted NVFP4 has them.
    `rope_scaling` is None, "linear", "yarn" or "llama3"; the last writes rope_freqs.weight. `metadata` are more numbers
    of the architecture, such as ("rope.scaling.attn_factor", 0.8).
    """

    arch: str = "llama"
    width: int = 512
    layers: int = 2
    heads: int = 8
    kv_heads: int | tuple[int, ...] = 2
    head_dim: int = 64
    value_dim: int | None = None
    ffn: int | tuple[int, ...] = 1024
    experts: int = 8
    used: int = 3
    router: str = "random"
    vocab: int = 320
    context_length: int = 512
    types: str | Mapping[str, str] = "Q4_K"
    tied: bool = True
    biases: bool = False
    factors: bool = False
    rope_base: float = 10000.0
    rope_scaling: str | None = None
    rope_factor: float = 4.0
    rope_original_context: int = 256
    metadata: tuple[tuple[str, float], ...] = ()
    tokenizer: str = "llama"
    eot: int | None = None
    chat_template: str | None = None
    seed: int = 0

    def by_layer(self, size: int | tuple[int, ...]) -> tuple[int, ...]:
        """A size of each layer."""
        return size if isinstance(size, tuple) else (size,) * self.layers

    def type_of(self, stem: str) -> Type:
        """The tensor type for a stem such as "attn_v"."""
        recipe = (
            (RECIPES | EXPERT_RECIPES).get(self.types, {"": self.types}) if isinstance(self.types, str) else self.types
        )
        return Type[recipe.get(stem, recipe[""])]


def write_model(path: Path | str, **options: Any) -> Path:
    """Write a model file; `options` are the fields of Spec. Returns the path."""
    spec, path = Spec(**options), Path(path)
    writer = gguf.GGUFWriter(path, spec.arch)
    _write_shape(writer, spec)
    _write_rope(writer, spec)
    write_vocabulary(writer, spec.tokenizer, spec.vocab)
    if spec.eot is not None:
        writer.add_eot_token_id(spec.eot)
    if spec.chat_template is not None:
        writer.add_chat_template(spec.chat_template)
    _write_tensors(writer, spec)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _write_shape(writer: gguf.GGUFWriter, spec: Spec) -> None:
    writer.add_name(f"random {spec.types} {spec.heads}/{spec.kv_heads}/{spec.head_dim}")
    writer.add_context_length(spec.context_length)
    writer.add_embedding_length(spec.width)
    writer.add_block_count(spec.layers)
    writer.add_feed_forward_length(spec.ffn)
    writer.add_head_count(spec.heads)
    writer.add_head_count_kv(spec.kv_heads)
    writer.add_key_length(spec.head_dim)
    writer.add_value_length(spec.value_dim or spec.head_dim)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(spec.vocab)
    if spec.arch == "qwen35":
        recurrent_layers.add_keys(writer)
    if spec.arch == "qwen3moe":
        writer.add_expert_count(spec.experts)
        writer.add_expert_used_count(spec.used)


def _write_rope(writer: gguf.GGUFWriter, spec: Spec) -> None:
    writer.add_rope_dimension_count(spec.head_dim // 4 if spec.arch == "qwen35" else spec.head_dim)
    writer.add_rope_freq_base(spec.rope_base)
    if spec.rope_scaling == "llama3":
        writer.add_tensor("rope_freqs.weight", llama3_factors(spec))
    elif spec.rope_scaling is not None:
        writer.add_rope_scaling_type(gguf.RopeScalingType(spec.rope_scaling))
        writer.add_rope_scaling_factor(spec.rope_factor)
        writer.add_rope_scaling_orig_ctx_len(spec.rope_original_context)
    for key, value in spec.metadata:
        add = writer.add_uint32 if isinstance(value, int) else writer.add_float32
        add(f"{spec.arch}.{key}", value)


def llama3_factors(spec: Spec, low: float = 1.0, high: float = 4.0) -> NDArray[np.float32]:
    """What each frequency is divided by, (head_dim / 2,): rope_type "llama3" of Hugging Face transformers."""
    frequency = spec.rope_base ** -(np.arange(0, spec.head_dim, 2) / spec.head_dim)
    turns = spec.rope_original_context * frequency / (2 * np.pi)
    smooth = np.clip((turns - low) / (high - low), 0, 1)
    return (1 / ((1 - smooth) / spec.rope_factor + smooth)).astype(np.float32)


def _write_tensors(writer: gguf.GGUFWriter, spec: Spec) -> None:
    rng = np.random.default_rng(spec.seed)

    def factors(name: str, count: int) -> NDArray[np.float32]:
        if not spec.factors or name == "token_embd":
            return np.ones(count, np.float32)
        values = rng.uniform(0.01, 0.02, count).astype(np.float32)
        writer.add_tensor(name + ".scale", values)
        writer.add_tensor(name + ".input_scale", np.full(count, 3, np.float32))
        return values

    def matrix(name: str, rows: int, cols: int, gain: float = 1.0) -> None:
        kind, (factor,) = spec.type_of(name.split(".")[-1]), factors(name, 1)
        rows_as_stored = ENCODERS[kind](rng, rows, cols, gain * cols**-0.5 / factor)
        writer.add_tensor(name + ".weight", rows_as_stored, raw_dtype=kind)

    def stack(name: str, rows: int, cols: int, gain: float = 1.0) -> None:
        kind, stds = spec.type_of(name.split(".")[-1]), gain * cols**-0.5 / factors(name, spec.experts)
        matrices = [ENCODERS[kind](rng, rows, cols, std) for std in stds]
        writer.add_tensor(name + ".weight", np.stack(matrices), raw_dtype=kind)

    def vector(name: str, n: int, mean: float) -> None:
        writer.add_tensor(name, (mean + 0.2 * rng.standard_normal(n)).astype(np.float32))

    def linear(name: str, rows: int, cols: int, gain: float = 1.0) -> None:
        matrix(name, rows, cols, gain)
        stem = name.split(".")[-1]
        if spec.biases or (spec.arch == "qwen2" and stem in ("attn_q", "attn_k", "attn_v")):
            vector(name + ".bias", rows, 0.0)

    matrix("token_embd", spec.vocab, spec.width)
    vector("output_norm.weight", spec.width, 1.5)
    if not spec.tied:
        matrix("output", spec.vocab, spec.width)
    queries, value_dim = spec.heads * spec.head_dim, spec.value_dim or spec.head_dim
    for i, (kv_heads, ffn) in enumerate(zip(spec.by_layer(spec.kv_heads), spec.by_layer(spec.ffn), strict=True)):
        layer, keys = f"blk.{i}.", kv_heads * spec.head_dim
        vector(layer + "attn_norm.weight", spec.width, 1.0)
        is_recurrent = spec.arch == "qwen35" and i % recurrent_layers.INTERVAL != recurrent_layers.INTERVAL - 1
        if is_recurrent:
            recurrent_layers.add_tensors(writer, rng, layer, spec.width, matrix)
        else:
            linear(layer + "attn_q", queries * (2 if spec.arch == "qwen35" else 1), spec.width, 1.5)
            linear(layer + "attn_k", keys, spec.width, 1.5)
            linear(layer + "attn_v", kv_heads * value_dim, spec.width)
            linear(layer + "attn_output", spec.width, spec.heads * value_dim, 1.5)
        vector(layer + ("post_attention_norm" if spec.arch == "qwen35" else "ffn_norm") + ".weight", spec.width, 1.0)
        if spec.arch == "qwen3moe":
            writer.add_tensor(layer + "ffn_gate_inp.weight", ROUTERS[spec.router](rng, spec.experts, spec.width))
            stack(layer + "ffn_gate_exps", ffn, spec.width)
            stack(layer + "ffn_up_exps", ffn, spec.width)
            stack(layer + "ffn_down_exps", spec.width, ffn, 1.5)
        else:
            linear(layer + "ffn_gate", ffn, spec.width)
            linear(layer + "ffn_up", ffn, spec.width)
            linear(layer + "ffn_down", spec.width, ffn, 1.5)
        if spec.arch in ("qwen3", "qwen3moe", "qwen35") and not is_recurrent:
            vector(layer + "attn_q_norm.weight", spec.head_dim, 1.5)
            vector(layer + "attn_k_norm.weight", spec.head_dim, 1.5)


if __name__ == "__main__":
    write_model(sys.argv[1], vocab=512)
