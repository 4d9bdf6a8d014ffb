"""Write GGUF files of the Gemma architectures with small sizes, to read their descriptions or to compute."""

from pathlib import Path
from typing import Any

import gguf
import numpy as np

from support.family_file import add_key

WIDTH, FFN, VOCAB = 16, 24, 8
Shapes = dict[str, tuple[int, ...]]


def common(layers: int) -> dict[str, Any]:
    """Keys that all architectures have: 2 heads of 8 values, 1 KV head."""
    return {
        "block_count": layers,
        "context_length": 256,
        "embedding_length": WIDTH,
        "feed_forward_length": FFN,
        "attention.head_count": 2,
        "attention.head_count_kv": 1,
        "attention.key_length": 8,
        "attention.value_length": 8,
        "attention.layer_norm_rms_epsilon": 1e-6,
    }


def windowed_keys(layers: int, windowed: list[bool], shared: int = 0) -> dict[str, Any]:
    """Keys that gemma3n and gemma4 have: heads of 8 values, in layers with a window of 4 values with gemma4."""
    return common(layers) | {
        "attention.sliding_window": 16,
        "attention.sliding_window_pattern": windowed,
        "attention.shared_kv_layers": shared,
        "rope.freq_base": 1e6,
        "rope.freq_base_swa": 1e4,
    }


def attention_shapes(layer: int, key_dim: int = 8, kv_heads: int = 1) -> Shapes:
    """Tensors of attention with 2 heads."""
    return {
        f"blk.{layer}.attn_q.weight": (2 * key_dim, WIDTH),
        f"blk.{layer}.attn_k.weight": (kv_heads * key_dim, WIDTH),
        f"blk.{layer}.attn_v.weight": (kv_heads * key_dim, WIDTH),
        f"blk.{layer}.attn_output.weight": (WIDTH, 2 * key_dim),
    }


def layer_shapes(layer: int, norms: str = "attn_norm ffn_norm", ffn: int = FFN) -> Shapes:
    """Tensors of a feed-forward and the named norms."""
    shapes: Shapes = {f"blk.{layer}.{norm}.weight": (WIDTH,) for norm in norms.split()}
    return shapes | {
        f"blk.{layer}.ffn_gate.weight": (ffn, WIDTH),
        f"blk.{layer}.ffn_up.weight": (ffn, WIDTH),
        f"blk.{layer}.ffn_down.weight": (WIDTH, ffn),
    }


SANDWICH = "attn_norm post_attention_norm ffn_norm post_ffw_norm"


def head_norm_shapes(layer: int, key_dim: int = 8) -> Shapes:
    """Norms of each head of q and k."""
    return {f"blk.{layer}.attn_{x}_norm.weight": (key_dim,) for x in "qk"}


def plain_shapes(layers: int, norms: str = SANDWICH, head_norms: bool = False) -> Shapes:
    """All tensors of gemma (with its two norms), gemma2 and gemma3 (with `head_norms`)."""
    shapes: Shapes = {"token_embd.weight": (VOCAB, WIDTH), "output_norm.weight": (WIDTH,)}
    for i in range(layers):
        shapes |= attention_shapes(i) | layer_shapes(i, norms) | (head_norm_shapes(i) if head_norms else {})
    return shapes


def per_layer_shapes(layers: int, width: int) -> Shapes:
    """Tensors of per-layer embeddings of `width` values."""
    shapes: Shapes = {
        "per_layer_token_embd.weight": (VOCAB, layers * width),
        "per_layer_model_proj.weight": (layers * width, WIDTH),
        "per_layer_proj_norm.weight": (width,),
    }
    for i in range(layers):
        shapes[f"blk.{i}.inp_gate.weight"], shapes[f"blk.{i}.proj.weight"] = (width, WIDTH), (WIDTH, width)
        shapes[f"blk.{i}.post_norm.weight"] = (WIDTH,)
    return shapes


def altup_shapes(layers: int) -> Shapes:
    """Tensors of four streams and of the learned augmented residual."""
    shapes: Shapes = {f"altup_{name}.weight": (3, WIDTH, WIDTH) for name in ("proj", "unembd_proj")}
    for i in range(layers):
        shapes |= {
            f"blk.{i}.altup_router.weight": (4, WIDTH),
            f"blk.{i}.altup_router_norm.weight": (WIDTH,),
            f"blk.{i}.altup_predict_coef.weight": (16, 4),
            f"blk.{i}.altup_correct_coef.weight": (4, 4),
            f"blk.{i}.altup_correct_scale.weight": (WIDTH,),
            f"blk.{i}.laurel_l.weight": (64, WIDTH),
            f"blk.{i}.laurel_r.weight": (WIDTH, 64),
            f"blk.{i}.laurel_post_norm.weight": (WIDTH,),
        }
    return shapes


def write_shapes(path: Path, arch: str, keys: dict[str, Any], shapes: Shapes, values: dict[str, Any]) -> Path:
    """Write a file with these keys of the architecture, and float32 tensors: zeros, or the given values.

    The key "tokens" is the number of tokens in the vocabulary.
    """
    writer = gguf.GGUFWriter(path, arch)
    writer.add_token_list([f"t{i}" for i in range(keys.get("tokens", VOCAB))])
    for key, value in keys.items():
        add_key(writer, f"{arch}.{key}", value)
    for name, shape in shapes.items():
        writer.add_tensor(name, np.full(shape, values.get(name, 0.0), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def drawn_values(shapes: Shapes) -> dict[str, Any]:
    """Random weights for these tensors: matrices keep the size of activations, vectors are near 1."""
    rng = np.random.default_rng(0)
    return {
        name: rng.standard_normal(shape) * shape[-1] ** -0.5 if len(shape) > 1 else 1 + 0.1 * rng.standard_normal(shape)
        for name, shape in shapes.items()
    }
