"""Arguments of recurrent layers: convolutions over time, and scans of a state from token to token.

A state page holds the states of all recurrent layers of one sequence after one token; the part of a layer begins at
`state_offset`. Pages are not rewritten: an op reads the page of each segment (`BatchRecord.states`), and writes the
states behind the rows that keep theirs (`BatchRecord.kept_states`).
"""

from typing import NamedTuple

from kquants.records.header import Word


class ConvOp(NamedTuple):
    """y[t] = gate[t] · f(bias + Σ_i weight[:, i] · (factor · x)[t + i - (taps - 1)]): a causal convolution.

    Each channel has a convolution of its own over the rows t of a sequence, of 2 to 4 taps. Factor and gate may be
    null, which stands for 1; else their rows are `x_bytes` apart, as those of x. The state is the last taps - 1 rows of
    factor · x, the oldest first: float32[taps - 1, channels], padded to a multiple of 16 channels.
    """

    x: Word
    x_bytes: Word
    channels: Word
    taps: Word
    weight: Word
    """float32[channels, taps]."""
    bias: Word
    """float32[channels], or null."""
    silu: Word
    """1: f is SiLU; 0: f(x) = x."""
    factor: Word
    gate: Word
    y: Word
    y_bytes: Word
    state_group: Word
    """The index of the state pages in `BatchRecord.pages`."""
    state_offset: Word


class DeltaInputsOp(NamedTuple):
    """What the gated delta rule reads: q and k, normed in place, and the gates of each head.

    q = q / sqrt(Σ q² + eps) / sqrt(key_dim), k = k / sqrt(Σ k² + eps). Gates of head h: decay = exp(a · softplus(alpha
    + dt_bias)) at [h], beta = sigmoid(beta) at [heads + h]. Alpha and beta of head h are the values at index
    h div group · group_stride + h mod group of their rows; those of alpha begin `alpha_offset` bytes into the row.
    """

    qkv: Word
    """Rows [q: key_heads · key_dim | k: as many | v]."""
    qkv_bytes: Word
    key_heads: Word
    key_dim: Word
    eps: float
    alpha: Word
    alpha_bytes: Word
    alpha_offset: Word
    beta: Word
    beta_bytes: Word
    group: Word
    group_stride: Word
    a: Word
    """float32[heads]: negative."""
    dt_bias: Word
    """float32[heads]."""
    heads: Word
    gates: Word
    """Rows float32[2 · heads]."""
    gates_bytes: Word


class DeltaRuleOp(NamedTuple):
    """The gated delta rule (arXiv 2412.06464) in each head, row by row, with a state S of [key_dim, value_dim].

    S = decay · S; S = S + k (beta · (v - Sᵀ k))ᵀ; y = Sᵀ q. The state is stored in blocks of 32 columns, the last of
    a head padded: float32[heads, ceil(value_dim / 32), key_dim, 32].
    """

    qkv: Word
    """Rows [q: key_heads · key_dim | k: as many | v: heads · value_dim], q and k normed."""
    qkv_bytes: Word
    key_heads: Word
    heads: Word
    key_dim: Word
    value_dim: Word
    grouped: Word
    """1: head h reads the key head h div (heads / key_heads); 0: h mod key_heads."""
    gates: Word
    """Rows [decay: heads | beta: heads]."""
    gates_bytes: Word
    y: Word
    y_bytes: Word
    state_group: Word
    state_offset: Word


class ChannelDeltaInputsOp(NamedTuple):
    """What the delta rule with a decay for each channel of keys reads; all but decayed_k are computed in place.

    q = q / sqrt(Σ q² + eps) / sqrt(head_dim), k = k / sqrt(Σ k² + eps) in each head. decay = exp(a · softplus(decay +
    dt_bias)), with the a of the head; decayed_k = decay · k; beta = sigmoid(beta).
    """

    q: Word
    k: Word
    decay: Word
    decayed_k: Word
    row_bytes: Word
    """Bytes from row to row of each of these; a row is float32[heads · head_dim]."""
    heads: Word
    head_dim: Word
    eps: float
    a: Word
    """float32[heads]: negative."""
    dt_bias: Word
    """float32[heads · head_dim]."""
    beta: Word
    """Rows float32[heads]."""
    beta_bytes: Word


class ChannelDeltaRuleOp(NamedTuple):
    """The delta rule with a decay for each channel of keys (KDA, arXiv 2510.26692), row by row, in each head.

    S = diag(decay) S; S = S + k (beta · (v - Sᵀ k))ᵀ; y = Sᵀ q, with a state S of [head_dim, head_dim]. It is stored as
    that of `DeltaRuleOp`.
    """

    q: Word
    k: Word
    v: Word
    decay: Word
    decayed_k: Word
    """decay · k."""
    y: Word
    row_bytes: Word
    """Bytes from row to row of each of these; a row is float32[heads · head_dim]."""
    heads: Word
    head_dim: Word
    beta: Word
    beta_bytes: Word
    state_group: Word
    state_offset: Word


class MambaInputsOp(NamedTuple):
    """The gates of a Mamba-2 layer: with dt = softplus(dt + dt_bias), decay = exp(dt · a) at [h], dt at [heads + h]."""

    dt: Word
    dt_bytes: Word
    dt_bias: Word
    """float32[heads]."""
    a: Word
    """float32[heads]: negative."""
    heads: Word
    gates: Word
    """Rows float32[2 · heads]."""
    gates_bytes: Word


class MambaOp(NamedTuple):
    """The scan of Mamba-2 (arXiv 2405.21060) in each head, row by row, with a state S of [state_dim, head_dim].

    S = decay · S + B (dt · x)ᵀ; y = Sᵀ C + d · x. Head h reads B and C of group h div (heads / groups). The state is
    stored in blocks of 32 columns, the last of a head padded: float32[heads, ceil(head_dim / 32), state_dim, 32].
    """

    xbc: Word
    """Rows [x: heads · head_dim | B: groups · state_dim | C: as many]."""
    xbc_bytes: Word
    heads: Word
    head_dim: Word
    groups: Word
    state_dim: Word
    gates: Word
    """Rows [decay: heads | dt: heads]."""
    gates_bytes: Word
    d: Word
    """float32[heads]."""
    y: Word
    y_bytes: Word
    state_group: Word
    state_offset: Word


class SelectiveScanOp(NamedTuple):
    """The scan of Mamba-1 (arXiv 2312.00752) in each channel, row by row, with a state S of [state_dim, channels].

    With step = softplus(dt + dt_bias), S[i, k] = exp(step[k] · a[k, i]) · S[i, k] + B[i] · step[k] · x[k];
    y = Sᵀ C + d · x. The state is stored in blocks of 32 channels, the last of them padded:
    float32[ceil(channels / 32), state_dim, 32]. Channels and `state_dim` are multiples of 16. A decay, exp(step · a),
    below 2**-64 counts as 2**-64.
    """

    x: Word
    x_bytes: Word
    channels: Word
    state_dim: Word
    bc: Word
    """Rows [B: state_dim | C: state_dim]."""
    bc_bytes: Word
    dt: Word
    dt_bytes: Word
    dt_bias: Word
    """float32[channels]."""
    a: Word
    """float32[channels, state_dim]: negative; values above 0 count as 0."""
    d: Word
    """float32[channels]."""
    y: Word
    y_bytes: Word
    state_group: Word
    state_offset: Word


class GatedNormOp(NamedTuple):
    """h = norm(x) · weight · f(z), or with `gate_first` norm(x · f(z)) · weight; RMSNorm of each group of values.

    The result is written to each of h, q8 and super_q8 that is not null.
    """

    x: Word
    x_bytes: Word
    z: Word
    z_bytes: Word
    weight: Word
    """float32[group_dim], or float32[groups, group_dim] with `weight_stride` group_dim; or null: without a norm."""
    weight_stride: Word
    groups: Word
    group_dim: Word
    piece: Word
    """The values that a unit computes: whole groups and whole blocks of 256 values, or the whole row."""
    eps: float
    gate_first: Word
    silu: Word
    """1: f is SiLU; 0: f is the logistic function."""
    h: Word
    h_bytes: Word
    q8: Word
    super_q8: Word


class SplitGateOp(NamedTuple):
    """Split rows of heads [q: head_dim | gate: head_dim] into rows of q and rows of gate."""

    x: Word
    x_bytes: Word
    heads: Word
    head_dim: Word
    q: Word
    q_bytes: Word
    gate: Word
    gate_bytes: Word
