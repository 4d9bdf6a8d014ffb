"""A target whose next token is always that of one permutation, and an EAGLE-3 head that always drafts it.

Embeddings are ±1. The target's layers add nothing, so that its state is the embedding e of the last token, and row
next(i) of its output matrix is the embedding of i. The head's residual stream is small beside its attention, which
sees its own cell alone: q and k are large multiples of parts of e. Its values are 32 values of e, and row next(i) of
its output matrix is what attention gives for the embedding of i.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from converters import convert
from support.eagle3_heads import TARGET, Head, write_head
from support.make_checkpoint import write_checkpoint

_VOCAB, _WIDTH = TARGET["vocab"], TARGET["width"]
_CONTROLS = 3
"""Control tokens, which follow each other alone: no text comes to its end."""


class CertainFiles(NamedTuple):
    """Files of target and head; `following[i]` is the token after i."""

    target: Path
    head: Path
    following: NDArray[np.intp]


def write_certain_head(root: Path, right: float = 1.0) -> CertainFiles:
    """Write both. The head is right about a share `right` of tokens, and takes the token of another for the rest."""
    rng = np.random.default_rng(11)
    cycle = _CONTROLS + rng.permutation(_VOCAB - _CONTROLS)
    following = np.empty(_VOCAB, np.intp)
    following[:_CONTROLS] = np.roll(np.arange(_CONTROLS), -1)
    following[cycle] = np.roll(cycle, -1)
    e = rng.choice([-1.0, 1.0], (_VOCAB, _WIDTH)).astype(np.float32)
    target = write_checkpoint(root / "target", **TARGET)
    tensors = load_file(target / "model.safetensors")
    for name in tensors:
        if name.endswith(("o_proj.weight", "down_proj.weight")):
            tensors[name] = np.zeros_like(tensors[name])
    tensors |= {"model.embed_tokens.weight": e, "model.norm.weight": np.ones(_WIDTH, np.float32)}
    tensors["lm_head.weight"] = _rows(e, following)
    save_file(tensors, target / "model.safetensors", {"format": "pt"})
    drafted = following.copy()
    wrong = rng.permutation(_VOCAB)[round(right * _VOCAB) :]
    drafted[wrong] = following[np.roll(wrong, 1)]
    head = write_head(root / "head", Head(draft_vocab=_VOCAB, own_embedding=True, norm_before_residual=True))
    _make_certain(head / "model.safetensors", e, drafted)
    convert(target, root / "target.gguf", "F16", tensor_types=[".*=F32"])
    convert(head, root / "head.gguf", "F16", target=target, tensor_types=[".*=F32"])
    return CertainFiles(root / "target.gguf", root / "head.gguf", following)


def _make_certain(path: Path, e: NDArray[np.float32], drafted: NDArray[np.intp]) -> None:
    tensors = load_file(path)
    keys = np.zeros((32, 2 * _WIDTH), np.float32)
    keys[np.arange(32), np.arange(32)] = 1
    by_head = keys.reshape(2, 16, -1)
    ones, small = np.ones(_WIDTH, np.float32), np.full(_WIDTH, 0.01, np.float32)
    attention = np.repeat(e[:, :32].reshape(_VOCAB, 2, 16), 2, axis=1).reshape(_VOCAB, _WIDTH)
    tensors |= {
        "midlayer.self_attn.q_proj.weight": 10 * np.repeat(by_head, 2, axis=0).reshape(64, -1),
        "midlayer.self_attn.k_proj.weight": 10 * keys,
        "midlayer.self_attn.v_proj.weight": keys,
        "midlayer.self_attn.o_proj.weight": np.eye(_WIDTH, 64, dtype=np.float32),
        "midlayer.mlp.down_proj.weight": np.zeros_like(tensors["midlayer.mlp.down_proj.weight"]),
        "midlayer.input_layernorm.weight": ones,
        "midlayer.hidden_norm.weight": small,
        "norm.weight": ones,
        "embed_tokens.weight": e,
        "lm_head.weight": _rows(attention, drafted),
    }
    save_file(tensors, path, {"format": "pt"})


def _rows(of: NDArray[np.float32], following: NDArray[np.intp]) -> NDArray[np.float32]:
    """A matrix whose row following[i] is row i, but for tokens that follow none."""
    found = np.zeros_like(of)
    found[following] = of
    return found
