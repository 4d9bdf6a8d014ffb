"""The Llama and Qwen forward pass in plain NumPy float64, straight from the definition: what the engine must equal.

Weights are dequantized to float64; nothing else is rounded. Shapes: n tokens, d width, h heads, g KV heads,
e head size. One file, top to bottom: model file → layers → logits.
"""

from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf import GGUFReader
from numpy.typing import NDArray

Array = NDArray[np.float64]


def reference_logits(path: Path | str, ids: list[int]) -> Array:
    """The logits of every position of a model file, (n, vocab) float64."""
    return Reference(Path(path)).logits(ids)


class Reference:
    """A model file: its `weights` as float64 arrays, its `meta`data without the architecture's prefix."""

    def __init__(self, path: Path) -> None:
        reader = GGUFReader(path)
        self.arch = str(reader.fields["general.architecture"].contents())
        self.weights: dict[str, Array] = {
            t.name: gguf.quants.dequantize(t.data, t.tensor_type).astype(np.float64) for t in reader.tensors
        }
        prefix = self.arch + "."
        self.meta: dict[str, Any] = {
            key.removeprefix(prefix): field.contents() for key, field in reader.fields.items() if key.startswith(prefix)
        }
        self.heads: int = self.meta["attention.head_count"]
        self.head_dim: int = self.meta.get("attention.key_length", self.meta["embedding_length"] // self.heads)

    def logits(self, ids: list[int]) -> Array:
        """x = embeddings; x += attention(norm(x)); x += feed_forward(norm(x)); logits = head(norm(x))."""
        x = self.weights["token_embd.weight"][ids]
        for i in range(self.meta["block_count"]):
            block = f"blk.{i}."
            x = x + self.attention(block, self.norm(x, block + "attn_norm"))
            x = x + self.feed_forward(block, self.norm(x, block + "ffn_norm"))
        head = "output" if "output.weight" in self.weights else "token_embd"
        return self.linear(self.norm(x, "output_norm"), head)

    def linear(self, x: Array, name: str) -> Array:
        """x Wᵀ + b: (n, columns) → (n, rows); W is stored (rows, columns), b is often absent."""
        y: Array = x @ self.weights[name + ".weight"].T
        return y + self.weights.get(name + ".bias", 0.0)

    def norm(self, x: Array, name: str) -> Array:
        """RMSNorm over the last axis, (n, d) → (n, d)."""
        mean = (x**2).mean(axis=-1, keepdims=True)
        scaled: Array = x / np.sqrt(mean + self.meta["attention.layer_norm_rms_epsilon"])
        return scaled * self.weights[name + ".weight"]

    def feed_forward(self, block: str, x: Array) -> Array:
        """SwiGLU: down(silu(gate(x)) * up(x)), (n, d) → (n, d)."""
        gate = self.linear(x, block + "ffn_gate")
        return self.linear(gate / (1 + np.exp(-gate)) * self.linear(x, block + "ffn_up"), block + "ffn_down")

    def attention(self, block: str, x: Array) -> Array:
        """Causal attention, (n, d) → (n, d); h / g query heads share each KV head."""
        n = len(x)
        q = self.linear(x, block + "attn_q").reshape(n, self.heads, self.head_dim)
        k = self.linear(x, block + "attn_k").reshape(n, -1, self.head_dim)
        v = self.linear(x, block + "attn_v").reshape(n, k.shape[1], -1)
        if self.arch == "qwen3":
            q, k = self.norm(q, block + "attn_q_norm"), self.norm(k, block + "attn_k_norm")
        q, k = self.rotate(q), self.rotate(k)
        share = self.heads // k.shape[1]
        k, v = k.repeat(share, axis=1), v.repeat(share, axis=1)
        scores = np.einsum("nhe,mhe->hnm", q, k) / np.sqrt(self.head_dim)
        scores = np.where(np.tri(n, dtype=bool), scores, -np.inf)
        mixed = np.einsum("hnm,mhe->nhe", softmax(scores), v)
        return self.linear(mixed.reshape(n, -1), block + "attn_output")

    def rotate(self, x: Array) -> Array:
        """Turn each pair of dimensions of a head by its angle, (n, heads, e) → (n, heads, e).

        Of r rotary dimensions RoPE type NORM (the architecture llama) pairs (0, 1), (2, 3), …, and NEOX (the others)
        (0, r/2), (1, r/2 + 1), …. Dimensions past r stay as they are.
        """
        rotary = self.meta.get("rope.dimension_count", self.head_dim)
        dims = np.arange(rotary)
        even, odd = dims.reshape(-1, 2).T if self.arch == "llama" else dims.reshape(2, -1)
        angle, size = self.angles(len(x), rotary)
        cos, sin = size * np.cos(angle)[:, None], size * np.sin(angle)[:, None]
        turned = x.copy()
        turned[..., even] = x[..., even] * cos - x[..., odd] * sin
        turned[..., odd] = x[..., even] * sin + x[..., odd] * cos
        return turned

    def angles(self, n: int, rotary: int) -> tuple[Array, float]:
        """The angles (n, rotary / 2) of positions 0..n-1, and what cos and sin are multiplied by.

        As in llama.cpp, a factor without a type means linear scaling, and scale_linear is its older name.
        """
        base = self.meta.get("rope.freq_base", 10000.0)
        frequency = base ** -(np.arange(0, rotary, 2) / rotary)
        frequency = frequency / self.weights.get("rope_freqs.weight", 1.0)
        size = self.meta.get("rope.scaling.attn_factor", 1.0)
        factor = self.meta.get("rope.scaling.factor", self.meta.get("rope.scale_linear", 1.0))
        match self.meta.get("rope.scaling.type", "linear"):
            case "linear":
                frequency = frequency / factor
            case "yarn":
                keep = self.yarn_keep(base, rotary)
                frequency = frequency * (keep + (1 - keep) / factor)
                size = size * (1 + 0.1 * np.log(max(factor, 1)))
        return np.arange(n)[:, None] * frequency, size

    def yarn_keep(self, base: float, rotary: int) -> Array:
        """How much of each original frequency YaRN (arXiv 2309.00071) keeps, 0..1, (rotary / 2,).

        All of it above 32 turns within the original context, none below 1; the bounds are whole dimensions.
        """
        original = self.meta["rope.scaling.original_context_length"]

        def dimension(turns: float) -> float:
            return float(rotary * np.log(original / (turns * 2 * np.pi)) / (2 * np.log(base)))

        low = max(0, np.floor(dimension(32)))
        high = min(rotary - 1, np.ceil(dimension(1)))
        ramp: Array = (np.arange(rotary // 2) - low) / max(0.001, high - low)
        return 1 - ramp.clip(0, 1)


def softmax(x: NDArray[np.floating]) -> Array:
    """Softmax over the last axis in float64."""
    x = x.astype(np.float64)
    p = np.exp(x - x.max(axis=-1, keepdims=True))
    normal: Array = p / p.sum(axis=-1, keepdims=True)
    return normal


def divergence(truth: NDArray[np.floating], logits: NDArray[np.floating]) -> float:
    """KL(truth ‖ logits) of the softmax distributions in nats, mean over the rows of (n, vocab)."""
    p, q = softmax(truth), softmax(logits)
    return float((p * np.log(p / q)).sum(axis=-1).mean())
