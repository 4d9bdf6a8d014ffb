"""Recurrent mixers: layers whose state of a sequence has one size, however many tokens it has."""

from dataclasses import dataclass
from typing import ClassVar

from edgellm.arch.blocks import Linear, Norm
from edgellm.arch.kimi_delta import KimiDelta, KimiDeltaSettings
from edgellm.arch.mamba1 import Mamba1, Mamba1Settings
from edgellm.arch.recurrent_parts import Convolution, matrix_state_bytes
from edgellm.gguf import Tensor


@dataclass(frozen=True)
class DeltaNetSettings:
    """The sizes of a gated DeltaNet: `heads` heads of `value_dim` values, `key_heads` heads of q and k of `key_dim`.

    With `grouped`, consecutive heads share a key head; otherwise head h has the key head h mod `key_heads`.
    """

    heads: int
    key_heads: int
    key_dim: int
    value_dim: int
    grouped: bool
    taps: int

    @property
    def qkv_width(self) -> int:
        """Values of q, k and v of a token."""
        return 2 * self.key_heads * self.key_dim + self.value_width

    @property
    def value_width(self) -> int:
        """Values of the result of all heads of a token."""
        return self.heads * self.value_dim


@dataclass(frozen=True, kw_only=True)
class GatedDeltaNet(DeltaNetSettings):
    """Gated DeltaNet (arXiv 2412.06464): output(norm(delta_rule(silu(conv(qkv(h))))) · silu(z(h))).

    `qkv` gives [q | k | v]; q and k are normed to unit length. The decay of a head is exp(a · softplus(alpha(h) +
    dt_bias)), its beta sigmoid(beta(h)). Alpha and beta are two projections, or `beta_alpha` gives both: for each key
    head the betas of its heads, then their alphas. `output_norm` norms each head.
    """

    kind: ClassVar[str] = "gated DeltaNet"
    norm: Norm
    qkv: Linear
    z: Linear
    alpha: Linear | None
    beta: Linear | None
    beta_alpha: Linear | None
    conv: Convolution
    a: Tensor
    dt_bias: Tensor
    output_norm: Norm
    output: Linear

    @property
    def state_bytes(self) -> int:
        """Bytes of the state of a sequence.

        It is that of the convolution, then a matrix (key_dim, value_dim) of each head.
        """
        return self.conv.state_bytes + self.heads * matrix_state_bytes(self.key_dim, self.value_dim)


@dataclass(frozen=True)
class MambaSettings:
    """The sizes of a Mamba-2 layer: `heads` heads of `head_dim` values; each of `groups` groups shares B and C."""

    heads: int
    head_dim: int
    groups: int
    state_dim: int
    taps: int

    @property
    def inner_width(self) -> int:
        """Values of x, and of the result of all heads of a token."""
        return self.heads * self.head_dim

    @property
    def conv_width(self) -> int:
        """Values of x, B and C of a token."""
        return self.inner_width + 2 * self.groups * self.state_dim


@dataclass(frozen=True, kw_only=True)
class Mamba2(MambaSettings):
    """Mamba-2 (arXiv 2405.21060): output(norm(scan(silu(conv(xbc(h)))) · silu(z(h)))).

    `xbc` gives [x | B | C], `dt` the step of each head before its bias and softplus. `output_norm` norms each group of
    values, after the gate; some models have none. `a`, `d` and `dt_bias` have a value for each head; the formula of the
    scan is that of `kquants.records.MambaOp`.
    """

    kind: ClassVar[str] = "Mamba-2"
    norm: Norm | None
    z: Linear
    xbc: Linear
    dt: Linear
    conv: Convolution
    a: Tensor
    d: Tensor
    dt_bias: Tensor
    output_norm: Norm | None
    output: Linear

    @property
    def state_bytes(self) -> int:
        """Bytes of the state of a sequence.

        It is that of the convolution, then a matrix (state_dim, head_dim) of each head.
        """
        return self.conv.state_bytes + self.heads * matrix_state_bytes(self.state_dim, self.head_dim)


@dataclass(frozen=True)
class ShortConvSettings:
    """The sizes of a short convolution: of `width` channels over `taps` tokens."""

    width: int
    taps: int


@dataclass(frozen=True, kw_only=True)
class ShortConv(ShortConvSettings):
    """The short convolution of LFM2 (arXiv 2511.23404): output(c(h) · conv(b(h) · x(h)))."""

    kind: ClassVar[str] = "short convolution"
    norm: Norm
    b: Linear
    c: Linear
    x: Linear
    conv: Convolution
    output: Linear

    @property
    def state_bytes(self) -> int:
        """Bytes of the state of a sequence: that of the convolution."""
        return self.conv.state_bytes


RecurrentSettings = DeltaNetSettings | KimiDeltaSettings | Mamba1Settings | MambaSettings | ShortConvSettings
Recurrent = GatedDeltaNet | KimiDelta | Mamba1 | Mamba2 | ShortConv


def recurrent_sizes(settings: RecurrentSettings | None) -> dict[str, int]:
    """The sizes of a recurrent mixer by their names in `edgellm.arch.layer_sizes.LayerSizes`; none without one."""
    match settings:
        case DeltaNetSettings():
            heads, head_dim, width, groups = settings.heads, settings.value_dim, settings.qkv_width, 0
        case KimiDeltaSettings():
            heads, head_dim, width, groups = settings.heads, settings.head_dim, settings.width, 0
        case MambaSettings():
            heads, head_dim, width, groups = settings.heads, settings.head_dim, settings.conv_width, settings.groups
        case Mamba1Settings():
            sizes = {"state_dim": settings.state_dim, "step_rank": settings.step_rank}
            return {"taps": settings.taps, "conv_width": settings.width, "recurrent_width": settings.width, **sizes}
        case ShortConvSettings():
            return {"taps": settings.taps, "conv_width": settings.width, "recurrent_width": settings.width}
        case None:
            return {}
    return {
        "taps": settings.taps,
        "conv_width": width,
        "recurrent_heads": heads,
        "recurrent_head_dim": head_dim,
        "recurrent_width": heads * head_dim,
        "recurrent_groups": groups,
    }
