"""Checkpoints of EAGLE-3 heads with random weights in both published layouts, and what they compute, in float64.

The forward pass is written from the paper's code (SafeAILab/EAGLE, eagle/model/cnets.py), in the row order of
checkpoints: RoPE of type NEOX. The target is a checkpoint of `support.make_checkpoint` with the options TARGET.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from support.make_checkpoint import write_checkpoint

Array = NDArray[np.float64]
Tensors = dict[str, NDArray[Any]]

TARGET: dict[str, Any] = {
    "width": 64,
    "layers": 8,
    "heads": 4,
    "kv_heads": 2,
    "head_dim": 16,
    "ffn": 96,
    "vocab": 320,
    "dtype": "F32",
}
_FEATURES = 3 * TARGET["width"]
_ROPE = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64}


class Head(NamedTuple):
    """What to write: hidden size, number of tokens that it drafts, layout, and which parts it has."""

    width: int = 64
    draft_vocab: int = 96
    speculators: bool = False
    own_embedding: bool = False
    own_output: bool = True
    norm_before_residual: bool = False
    norm_before_fc: bool = False
    norm_output: bool = False
    llama3_rope: bool = False
    taps: tuple[int, ...] = ()


HEADS = {
    "midlayer": Head(),
    "speculators": Head(
        48, 96, True, own_embedding=True, norm_before_residual=True, norm_before_fc=True, taps=(1, 3, 7)
    ),
    "llama3-rope": Head(llama3_rope=True, norm_before_residual=True),
    "all-tokens": Head(draft_vocab=320, own_embedding=True),
    "shared-output": Head(draft_vocab=320, own_output=False),
}
"""The heads that are compared with llama.cpp, by name."""


def write_head(folder: Path, head: Head, config: Mapping[str, Any] | None = None, **tensors: Any) -> Path:
    """Write a head; `config` are more keys of config.json, None leaves one out, and so do `tensors` of theirs."""
    folder.mkdir(parents=True)
    written = {name: value for name, value in (_tensors(head) | tensors).items() if value is not None}
    save_file(written, folder / "model.safetensors", {"format": "pt"})
    values = {key: value for key, value in (_config(head) | dict(config or {})).items() if value is not None}
    (folder / "config.json").write_text(json.dumps(values), encoding="utf-8")
    return folder


def _config(head: Head) -> dict[str, Any]:
    layer = {
        "model_type": "llama",
        "hidden_size": head.width,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "intermediate_size": 96,
        "num_hidden_layers": 1,
        "vocab_size": TARGET["vocab"],
        "max_position_embeddings": 512,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
    }
    layer |= {"rope_scaling": {"rope_type": "llama3", **_ROPE}} if head.llama3_rope else {}
    flags = ("norm_before_residual", "norm_before_fc", "norm_output")
    own: dict[str, Any] = {name: True for name in flags if getattr(head, name)}
    own |= {"eagle_aux_hidden_state_layer_ids": list(head.taps)} if head.taps else {}
    own["draft_vocab_size"] = head.draft_vocab
    if head.speculators:
        return own | {"architectures": ["Eagle3Speculator"], "transformer_layer_config": layer}
    return layer | own | {"architectures": ["LlamaForCausalLMEagle3"]}


def _tensors(head: Head) -> Tensors:
    rng, width = np.random.default_rng(60), head.width

    def matrix(rows: int, columns: int) -> NDArray[np.float32]:
        return (rng.standard_normal((rows, columns)) * columns**-0.5).astype(np.float32)

    def vector(n: int) -> NDArray[np.float32]:
        return (1 + 0.2 * rng.standard_normal(n)).astype(np.float32)

    sizes = {"q": (64, 2 * width), "k": (32, 2 * width), "v": (32, 2 * width), "o": (width, 64)}
    layer = {f"self_attn.{name}_proj": matrix(*shape) for name, shape in sizes.items()}
    layer |= {f"mlp.{name}_proj": matrix(96, width) for name in ("gate", "up")}
    layer |= {"mlp.down_proj": matrix(width, 96)}
    layer |= {name: vector(width) for name in ("hidden_norm", "input_layernorm", "post_attention_layernorm")}
    prefix = "layers.0" if head.speculators else "midlayer"
    tensors: Tensors = {f"{prefix}.{name}.weight": value for name, value in layer.items()}
    tensors |= {"fc.weight": matrix(width, _FEATURES), "norm.weight": vector(width)}
    if head.own_output:
        tensors["lm_head.weight"] = matrix(head.draft_vocab, width)
    if head.own_embedding:
        tensors["embed_tokens.weight"] = matrix(TARGET["vocab"], width)
    if head.norm_before_fc:
        tensors["input_norm.weight"] = vector(_FEATURES)
    if head.draft_vocab != TARGET["vocab"]:
        ids = np.sort(rng.choice(TARGET["vocab"], head.draft_vocab, replace=False))
        tensors["d2t"] = ids - np.arange(head.draft_vocab)
        tensors["t2d"] = np.isin(np.arange(TARGET["vocab"]), ids)
    return tensors


class HeadOutputs(NamedTuple):
    """Of each row: the features that the layer read, its hidden state before the last norm, and its logits."""

    features: Array
    states: Array
    logits: Array


class Reference:
    """A head read from its checkpoint, computed in float64. `shared` are the target's tensors, by name in checkpoints.

    They are the embedding and the output matrix, where it has none.
    """

    def __init__(self, folder: Path, head: Head, shared: Tensors) -> None:
        self._head = head
        self._tensors = {name.removesuffix(".weight"): v for name, v in load_file(folder / "model.safetensors").items()}
        target = {name.removeprefix("model.").removesuffix(".weight"): value for name, value in shared.items()}
        self._tensors = {name: target[name] for name in ("embed_tokens", "lm_head") if name in target} | self._tensors
        self._prefix = "layers.0." if head.speculators else "midlayer."

    @property
    def ids(self) -> NDArray[np.int64]:
        """The target's id of each logit."""
        found = self._tensors.get("d2t", np.zeros(self._head.draft_vocab, np.int64))
        return np.asarray(np.arange(len(found)) + found)

    def encode(self, taps: Array) -> Array:
        """Features of hidden states of the target, [rows, 3 · width of the target]."""
        x = self._norm("input_norm", taps) if self._head.norm_before_fc else taps
        return x @ self._tensors["fc"].astype(np.float64).T

    def run(self, tokens: list[int], features: Array) -> HeadOutputs:
        """All rows of a sequence at once: row p is that of `tokens`[p], the token after position p, and features p."""
        head = self._head
        f = self._norm(f"{self._prefix}hidden_norm", features)
        e = self._norm(f"{self._prefix}input_layernorm", self._tensors["embed_tokens"][tokens].astype(np.float64))
        x = (f if head.norm_before_residual else features) + self._attention(np.hstack([e, f]))
        n = self._norm(f"{self._prefix}post_attention_layernorm", x)
        gate = self._times("mlp.gate_proj", n)
        x = x + self._times("mlp.down_proj", gate / (1 + np.exp(-gate)) * self._times("mlp.up_proj", n))
        logits = self._norm("norm", x) @ self._tensors["lm_head"].astype(np.float64).T
        return HeadOutputs(features, x, logits)

    def chained(self, states: Array) -> Array:
        """The features of the rows of drafts, of the states of the rows before."""
        return self._norm("norm", states) if self._head.norm_output else states

    def _attention(self, pairs: Array) -> Array:
        rows = len(pairs)
        q, k, v = (self._times(f"self_attn.{name}_proj", pairs).reshape(rows, -1, 16) for name in "qkv")
        q, k = (self._rotate(each) for each in (q, k))
        k, v = (np.repeat(each, q.shape[1] // each.shape[1], axis=1) for each in (k, v))
        scores = np.einsum("qhd,khd->hqk", q, k) / 4
        scores[:, np.triu(np.ones((rows, rows), bool), 1)] = -np.inf
        weights = np.exp(scores - scores.max(2, keepdims=True))
        heads = np.einsum("hqk,khd->qhd", weights / weights.sum(2, keepdims=True), v)
        return self._times("self_attn.o_proj", heads.reshape(rows, -1))

    def _rotate(self, heads: Array) -> Array:
        frequencies = 10000.0 ** (-np.arange(0, 16, 2) / 16) / self._divisors()
        angles = np.arange(len(heads))[:, None, None] * frequencies
        first, second = heads[..., :8], heads[..., 8:]
        turned = [first * np.cos(angles) - second * np.sin(angles), second * np.cos(angles) + first * np.sin(angles)]
        return np.concatenate(turned, axis=-1)

    def _divisors(self) -> Array | float:
        if not self._head.llama3_rope:
            return 1.0
        turns = 64 * 10000.0 ** (-np.arange(0, 16, 2) / 16) / (2 * np.pi)
        kept = np.clip((turns - 1) / 3, 0, 1)
        return np.asarray(1 / ((1 - kept) / 8 + kept))

    def _times(self, name: str, x: Array) -> Array:
        return x @ self._tensors[f"{self._prefix}{name}"].astype(np.float64).T

    def _norm(self, name: str, x: Array) -> Array:
        rms = np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)
        return np.asarray(x / rms * self._tensors[name].astype(np.float64))


class HeadFiles(NamedTuple):
    """Files of a target and of the head `name` of HEADS, and the folder of its checkpoint."""

    name: str
    target: Path
    head: Path
    folder: Path


def write_head_files(root: Path, name: str, types: str, head: Head | None = None) -> HeadFiles:
    """Write a target and the head `name` of HEADS, or `head`, with weights of a mix, or with F32."""
    from converters import convert  # tests of others need no converter

    folder, target = write_head(root / name, head or HEADS[name]), write_checkpoint(root / "target", **TARGET)
    options: dict[str, Any] = {"type": "F16", "tensor_types": [".*=F32"]} if types == "F32" else {"type": types}
    files = HeadFiles(name, root / "target.gguf", root / f"{name}.gguf", folder)
    convert(target, files.target, **options)
    convert(folder, files.head, target=target, **options)
    return files
