"""Multi-head latent attention (MLA, DeepSeek-V2, arXiv 2405.04434, section 2.1) in its absorbed form.

A token has one latent vector c for all heads, and one key of RoPE. In the paper head h has the keys K_h c and the
values V_h c. Here K_h is absorbed by the query, and V_h is applied to the sum of latents: (K_hᵀ q) · c = q · (K_h c),
and V_h Σ w c = Σ w V_h c. So all heads read the same keys [c | key of RoPE], whose first values are the values, too.
"""

from dataclasses import dataclass

from edgellm.arch.blocks import AttentionSettings, Linear, Norm, StackedLinear


@dataclass(frozen=True, kw_only=True)
class LatentSettings(AttentionSettings):
    """The sizes of latent attention. `key_dim` and `value_dim` are those of what KV pages hold, for one KV head.

    `value_dim` is the length of the latent, and `key_dim` counts the values of RoPE behind it, too; where `rope` is
    None these are used as they are. `plain_dim` are the values of a query head before those of RoPE, and
    `head_value_dim` those of a head's result. `q_rank` is the width of the low-rank projection of q, or 0.
    """

    plain_dim: int
    head_value_dim: int
    q_rank: int = 0

    @property
    def shared_dim(self) -> int:
        """Values at the end of each query head and of the common key: those that RoPE turns, if there is RoPE."""
        return self.key_dim - self.value_dim

    @property
    def q_width(self) -> int:
        """Values of all query heads of a token as projected."""
        return self.heads * (self.plain_dim + self.shared_dim)

    @property
    def attention_width(self) -> int:
        """Values of the result of all heads of a token."""
        return self.heads * self.head_value_dim

    @property
    def stored_value_dim(self) -> int:
        """Values are part of the keys."""
        return 0


@dataclass(frozen=True, kw_only=True)
class LatentAttention(LatentSettings):
    """Multi-head latent attention, with h = norm(x).

    Query heads [plain values | values of RoPE] are `q`(h), or `q`(`q_norm`(`q_a`(h))). The key is `kv`(h) = [latent |
    values of RoPE], whose latent is normed by `kv_norm`. `k_absorbed`, K_hᵀ of each head, is (heads, value_dim,
    plain_dim), and `v`, V_h, is (heads, head_value_dim, value_dim).
    """

    norm: Norm
    q_a: Linear | None
    q_norm: Norm | None
    q: Linear
    kv: Linear
    kv_norm: Norm
    k_absorbed: StackedLinear
    v: StackedLinear
    output: Linear
