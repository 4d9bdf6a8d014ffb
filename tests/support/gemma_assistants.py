"""An assistant of Gemma 4 with random weights for the fixture gemma4_e2b, and what `transformers` computes with it."""

from pathlib import Path
from typing import Any, NamedTuple

import gguf
import numpy as np
from numpy.typing import NDArray

from support.family_file import add_key

Array = NDArray[np.float32]

ASSISTANT_REFERENCES = Path(__file__).parent / "golden" / "gemma_assistant.npz"
WIDTH, TARGET_WIDTH, FFN, VOCAB, LAYERS, WINDOW = 32, 64, 48, 320, 4, 16
LENGTHS = (1, 9, 15, 16, 17, 40)
"""Tokens of the text before the last one."""

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
"""The keys that llama.cpp's converter writes for it."""


class AssistantReference(NamedTuple):
    """Of each draft of a round: its logits, and the state that the next one goes on from."""

    logits: NDArray[np.float64]
    states: NDArray[np.float64]


def reference(length: int) -> AssistantReference:
    """What `transformers` computes behind the first `length` of IDS and the token that follows, in float64."""
    with np.load(ASSISTANT_REFERENCES) as found:
        return AssistantReference(*(found[f"{length}.{part}"] for part in AssistantReference._fields))


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
