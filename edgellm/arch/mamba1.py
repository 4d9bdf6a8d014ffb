"""Mamba-1: a recurrent mixer with a step for each channel, and a decay for each channel and row of its state."""

from dataclasses import dataclass
from typing import ClassVar

from edgellm.arch.blocks import Linear, Norm
from edgellm.arch.recurrent_parts import Convolution, matrix_state_bytes
from edgellm.gguf import Tensor


@dataclass(frozen=True)
class Mamba1Settings:
    """The sizes of a Mamba-1 layer: `width` channels, whose steps are projected from `step_rank` values.

    With `norm_eps`, the values of the step, B and C have an RMSNorm without a weight, of that epsilon.
    """

    width: int
    state_dim: int
    step_rank: int
    taps: int
    norm_eps: float | None = None


@dataclass(frozen=True, kw_only=True)
class Mamba1(Mamba1Settings):
    """Mamba-1 (arXiv 2312.00752): output(scan(u) · silu(z(h))) with u = silu(conv(x(h))).

    `step_a` gives the values that `step_b` projects to the step of each channel, before its bias and softplus; `bc`
    gives [B | C]. Both read u. `a` is (width, state_dim), `d` and `dt_bias` have a value for each channel; the formula
    of the scan is that of `kquants.records.SelectiveScanOp`.
    """

    kind: ClassVar[str] = "Mamba-1"
    norm: Norm
    x: Linear
    z: Linear
    conv: Convolution
    step_a: Linear
    step_b: Linear
    bc: Linear
    a: Tensor
    d: Tensor
    dt_bias: Tensor
    output: Linear

    @property
    def inner_norm(self) -> Norm | None:
        """The norm of the values of the step, of B and of C; None where there is none."""
        return None if self.norm_eps is None else Norm(None, None, self.norm_eps)

    @property
    def state_bytes(self) -> int:
        """Bytes of the state of a sequence: that of the convolution, then a matrix (state_dim, width)."""
        return self.conv.state_bytes + matrix_state_bytes(self.state_dim, self.width)
