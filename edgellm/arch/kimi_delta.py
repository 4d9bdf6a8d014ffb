"""Kimi delta attention: a recurrent mixer with a decay for each channel of keys."""

from dataclasses import dataclass
from typing import ClassVar

from edgellm.arch.blocks import Linear, Norm
from edgellm.arch.recurrent_parts import Convolution, matrix_state_bytes
from edgellm.gguf import Tensor


@dataclass(frozen=True)
class KimiDeltaSettings:
    """The sizes of Kimi delta attention: `heads` heads of q, k and v, each of `head_dim` values."""

    heads: int
    head_dim: int
    taps: int

    @property
    def width(self) -> int:
        """Values of q, of k, of v and of the result of all heads of a token."""
        return self.heads * self.head_dim


@dataclass(frozen=True, kw_only=True)
class KimiDelta(KimiDeltaSettings):
    """Kimi delta attention (KDA, arXiv 2510.26692): output(norm(delta_rule(q, k, v, …)) · sigmoid(gate_b(gate_a(h)))).

    q is silu(q_conv(q(h))), and k and v likewise; q and k are normed to unit length. Each channel of a head's keys has
    a decay: exp(a · softplus(decay_b(decay_a(h)) + dt_bias)), with an a for each head. The beta of a head is
    sigmoid(beta(h)). `output_norm` norms each head.
    """

    kind: ClassVar[str] = "Kimi delta attention"
    norm: Norm
    q: Linear
    k: Linear
    v: Linear
    q_conv: Convolution
    k_conv: Convolution
    v_conv: Convolution
    decay_a: Linear
    decay_b: Linear
    beta: Linear
    gate_a: Linear
    gate_b: Linear
    a: Tensor
    dt_bias: Tensor
    output_norm: Norm
    output: Linear

    @property
    def state_bytes(self) -> int:
        """Bytes of the state of a sequence.

        It is that of the convolutions of q, of k and of v, then a matrix (head_dim, head_dim) of each head.
        """
        return 3 * self.q_conv.state_bytes + self.heads * matrix_state_bytes(self.head_dim, self.head_dim)
