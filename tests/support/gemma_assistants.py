"""An assistant of Gemma 4 with random weights, and what `transformers` computes with it over some fixtures."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import gguf
import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from support.family_file import add_key

Array = NDArray[np.float32]

ASSISTANT_REFERENCES = Path(__file__).parent / "golden" / "gemma_assistant.npz"
WIDTH, TARGET_WIDTH, FFN, VOCAB, LAYERS, WINDOW = 32, 64, 48, 320, 4, 16
LENGTHS = (1, 9, 15, 16, 17, 40)
"""Tokens of the text before the last one."""

TARGETS: dict[str, dict[str, Any]] = {"gemma4_e2b": {}, "gemma4_moe": {"attention.head_count_kv": [2, 2, 2, 1]}}
"""The fixtures that it drafts for, and keys of its file for them in place of KEYS. Full layers of the second have one
KV head, whose values are its keys before their norm."""

DRAFTS = 4
IDS = [int(i) for i in np.random.default_rng(2).integers(3, 312, 60)]
KEYS: dict[str, Any] = {
    "block_count": LAYERS,
    "context_length": 512,
    "embedding_length": WIDTH,
    "embedding_length_out": TARGET_WIDTH,
    "feed_forward_length": FFN,
    "nextn_predict_layers": LAYERS,
    "attention.head_count": 4,
    "attention.head_count_kv": 2,
    "attention.key_length": 32,
    "attention.value_length": 32,
    "attention.key_length_swa": 16,
    "attention.value_length_swa": 16,
    "attention.layer_norm_rms_epsilon": 1e-6,
    "attention.shared_kv_layers": LAYERS,
    "attention.sliding_window": WINDOW,
    "attention.sliding_window_pattern": [True, True, True, False],
    "rope.dimension_count": 32,
    "rope.dimension_count_swa": 16,
    "rope.freq_base": 1e6,
    "rope.freq_base_swa": 1e4,
}
"""The keys that llama.cpp's converter writes for the first target."""

CONFIG: dict[str, Any] = {
    "architectures": ["Gemma4AssistantForCausalLM"],
    "model_type": "gemma4_assistant",
    "backbone_hidden_size": TARGET_WIDTH,
    "tie_word_embeddings": True,
    "use_ordered_embeddings": False,
}
TEXT_CONFIG: dict[str, Any] = {
    "model_type": "gemma4_text",
    "attention_k_eq_v": False,
    "enable_moe_block": False,
    "head_dim": 16,
    "hidden_activation": "gelu_pytorch_tanh",
    "hidden_size": WIDTH,
    "hidden_size_per_layer_input": 0,
    "intermediate_size": FFN,
    "layer_types": [*["sliding_attention"] * 3, "full_attention"],
    "max_position_embeddings": 512,
    "num_attention_heads": 4,
    "num_hidden_layers": LAYERS,
    "num_key_value_heads": 2,
    "num_kv_shared_layers": LAYERS,
    "per_layer_config": {"3": {"head_dim": 32}},
    "rms_norm_eps": 1e-6,
    "rope_parameters": {
        "full_attention": {"partial_rotary_factor": 0.25, "rope_theta": 1e6, "rope_type": "proportional"},
        "sliding_attention": {"rope_theta": 1e4, "rope_type": "default"},
    },
    "sliding_window": WINDOW,
    "tie_word_embeddings": True,
    "vocab_size": VOCAB,
}
"""What config.json holds, as `transformers` writes it, and its `text_config`."""

_NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "nextn.pre_projection": "pre_projection",
    "nextn.post_projection": "post_projection",
}
_LAYER = {
    "attn_q": "self_attn.q_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "attn_norm": "input_layernorm",
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}


class AssistantReference(NamedTuple):
    """Of each draft of a round: its logits, and the state that the next one goes on from."""

    logits: NDArray[np.float64]
    states: NDArray[np.float64]


def reference(target: str, length: int) -> AssistantReference:
    """What `transformers` computes behind the first `length` of IDS and the token that follows, in float64."""
    with np.load(ASSISTANT_REFERENCES) as found:
        return AssistantReference(*(found[f"{target}.{length}.{part}"] for part in AssistantReference._fields))


def tensors() -> dict[str, Array]:
    """The weights by their names in GGUF, but for the factors of RoPE."""
    rng = np.random.default_rng(60)

    def matrix(rows: int, columns: int) -> Array:
        return (rng.standard_normal((rows, columns)) * columns**-0.5).astype(np.float32)

    def norm(n: int) -> Array:
        return (1 + 0.2 * rng.standard_normal(n)).astype(np.float32)

    found = {"token_embd.weight": matrix(VOCAB, WIDTH), "output_norm.weight": norm(WIDTH)}
    found["nextn.pre_projection.weight"] = matrix(WIDTH, 2 * TARGET_WIDTH)
    found["nextn.post_projection.weight"] = matrix(TARGET_WIDTH, WIDTH)
    for i in range(LAYERS):
        dim = 16 if i < LAYERS - 1 else 32
        layer = {"attn_q": matrix(4 * dim, WIDTH), "attn_output": matrix(WIDTH, 4 * dim), "attn_q_norm": norm(dim)}
        layer |= {"ffn_gate": matrix(FFN, WIDTH), "ffn_up": matrix(FFN, WIDTH), "ffn_down": matrix(WIDTH, FFN)}
        layer |= {name: norm(WIDTH) for name in ("attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm")}
        layer["layer_output_scale"] = np.array([0.9], np.float32)
        found |= {f"blk.{i}.{name}.weight": value for name, value in layer.items()}
    return found


def write_assistant(path: Path, keys: dict[str, Any] | None = None, **changed: Array | None) -> Path:
    """Write its file; `keys` replace some of KEYS, and `changed` tensors by their names, where None leaves one out."""
    writer = gguf.GGUFWriter(path, "gemma4-assistant")
    for key, value in (KEYS | (keys or {})).items():
        add_key(writer, f"gemma4-assistant.{key}", value)
    factors = np.array([1.0] * 4 + [1e30] * 12, np.float32)  # a quarter of 32 values is rotated
    for name, value in ({"rope_freqs.weight": factors} | tensors() | changed).items():
        if value is not None:
            writer.add_tensor(name, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def checkpoint_name(gguf: str) -> str:
    """The name of a tensor in checkpoints."""
    stem = gguf.removesuffix(".weight")
    if stem in _NAMES:
        return f"{_NAMES[stem]}.weight"
    _, layer, name = stem.split(".")
    return f"model.layers.{layer}." + ("layer_scalar" if name == "layer_output_scale" else f"{_LAYER[name]}.weight")


def write_assistant_checkpoint(
    folder: Path, config: Mapping[str, Any] | None = None, text: Mapping[str, Any] | None = None, **changed: Any
) -> Path:
    """Write its checkpoint; keys of CONFIG and TEXT_CONFIG and tensors are replaced, and left out where None is given.

    `changed` are tensors by their names in checkpoints.
    """
    folder.mkdir(parents=True)
    stored = {checkpoint_name(name): value for name, value in tensors().items()} | changed
    save_file({name: each for name, each in stored.items() if each is not None}, folder / "model.safetensors")
    own = TEXT_CONFIG | dict(text or {})
    values = CONFIG | {"text_config": {key: value for key, value in own.items() if value is not None}}
    (folder / "config.json").write_text(json.dumps(values | dict(config or {})), encoding="utf-8")
    return folder
