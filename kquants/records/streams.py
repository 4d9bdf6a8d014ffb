"""Arguments of ops on the streams of alternating updates (AltUp)."""

from typing import NamedTuple

from kquants.records.header import Word


class MatchMagnitudeOp(NamedTuple):
    """to = y · rms(x) / rms(y), where the mean square of y is at least 1e-5; `to` may be y. n values, equal strides."""

    x: Word
    y: Word
    to: Word
    row_bytes: Word
    n: Word


class PredictStreamsOp(NamedTuple):
    """p_j = x_j + Σ_i c_4j+i x_i of the four streams, with c = coefficients · tanh(router_scale · routed).

    x holds stream 0 before and p_0 after, x_1 … x_3 the others; `predicted` becomes p_0, too.
    """

    x: Word
    x_1: Word
    x_2: Word
    x_3: Word
    predicted: Word
    row_bytes: Word
    """Of all these."""
    n: Word
    routed: Word
    """float32[4]."""
    routed_bytes: Word
    coefficients: Word
    """float32[16, 4]."""
    router_scale: float


class CorrectStreamsOp(NamedTuple):
    """x_j = p_j + (1 + c_j) (y - p_0) of the four streams, with c = coefficients · tanh(router_scale · routed).

    x holds y before and x_0 after; p_0 is `predicted`, and p_1 … p_3 become x_1 … x_3. `scaled` becomes scale · x_0.
    """

    x: Word
    x_1: Word
    x_2: Word
    x_3: Word
    predicted: Word
    scaled: Word
    row_bytes: Word
    """Of all these."""
    n: Word
    routed: Word
    """float32[4]."""
    routed_bytes: Word
    coefficients: Word
    """float32[4, 4]."""
    scale: Word
    """float32[n]."""
    router_scale: float
