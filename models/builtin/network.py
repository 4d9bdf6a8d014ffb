"""The network: a Llama of five million parameters, its tensors named as Hugging Face names them."""

from dataclasses import asdict, dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class NetworkConfig:
    """The sizes of a Llama, by their keys in config.json; rows are a multiple of 256, as k-quants need."""

    vocab_size: int = 2048
    hidden_size: int = 256
    intermediate_size: int = 768
    num_hidden_layers: int = 6
    num_attention_heads: int = 4
    num_key_value_heads: int = 2
    head_dim: int = 64
    max_position_embeddings: int = 1024
    rms_norm_eps: float = 1e-5
    rope_theta: float = 10000.0

    def to_dict(self) -> dict[str, object]:
        """Keys and values for config.json."""
        return asdict(self)


def rotations(config: NetworkConfig) -> tuple[Tensor, Tensor]:
    """Cosines and sines of RoPE, each [positions, head_dim]."""
    powers = torch.arange(0, config.head_dim, 2) / config.head_dim
    angles = torch.outer(torch.arange(config.max_position_embeddings).float(), config.rope_theta**-powers)
    angles = torch.cat([angles, angles], dim=-1)
    return angles.cos(), angles.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """RoPE (NEOX type) on [..., tokens, head_dim]: dimension i is rotated with i + head_dim / 2."""
    left, right = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-right, left], dim=-1) * sin


class SelfAttention(nn.Module):
    """Grouped-query attention: several query heads share a key-value head."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.head_dim, width = config.head_dim, config.hidden_size
        inner, shared = config.num_attention_heads * config.head_dim, config.num_key_value_heads * config.head_dim
        self.q_proj = nn.Linear(width, inner, bias=False)
        self.k_proj = nn.Linear(width, shared, bias=False)
        self.v_proj = nn.Linear(width, shared, bias=False)
        self.o_proj = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """[rows, tokens, hidden] to the same."""
        q, k, v = (self._heads(part(x)) for part in (self.q_proj, self.k_proj, self.v_proj))
        q, k = rotate(q, cos, sin).to(v.dtype), rotate(k, cos, sin).to(v.dtype)
        k, v = (shared.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for shared in (k, v))
        # Written out: on a CPU, the backward pass of torch's own attention takes a third of a step.
        scores = (q @ k.mT) * self.head_dim**-0.5
        later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        seen = scores.masked_fill(later, -torch.inf).softmax(-1).to(v.dtype) @ v
        return self.o_proj(seen.transpose(1, 2).flatten(2))

    def _heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)


class GatedMLP(nn.Module):
    """A SwiGLU feed-forward network."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """[rows, tokens, hidden] to the same."""
        return self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))


class DecoderLayer(nn.Module):
    """Attention, then the feed-forward network, each after a norm; `dropout` applies to the network's output."""

    def __init__(self, config: NetworkConfig, dropout: float) -> None:
        super().__init__()
        self.input_layernorm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.self_attn = SelfAttention(config)
        self.post_attention_layernorm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.mlp = GatedMLP(config)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """[rows, tokens, hidden] to the same."""
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        return x + self.dropout(self.mlp(self.post_attention_layernorm(x)))


class Network(nn.Module):
    """Token ids to logits; the embedding is also the output matrix."""

    def __init__(self, config: NetworkConfig, dropout: float = 0.0) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(DecoderLayer(config, dropout) for _ in range(config.num_hidden_layers))
        self.norm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        cos, sin = rotations(config)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        for weight in self.parameters():
            if weight.dim() == 2:
                nn.init.normal_(weight, std=0.02)

    def hidden(self, ids: Tensor) -> Tensor:
        """Ids [rows, tokens] to the normed hidden states [rows, tokens, hidden]."""
        x, tokens = self.embed_tokens(ids), ids.shape[1]
        for layer in self.layers:
            x = layer(x, self.cos[:tokens], self.sin[:tokens])
        return self.norm(x)

    def loss(self, ids: Tensor, targets: Tensor) -> Tensor:
        """Mean cross-entropy where `targets` [rows, tokens] is not -1; logits are computed only there."""
        wanted = targets >= 0
        logits = functional.linear(self.hidden(ids)[wanted], self.embed_tokens.weight)
        return functional.cross_entropy(logits.float(), targets[wanted])
