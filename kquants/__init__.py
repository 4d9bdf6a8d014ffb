"""Floor 1: quantized formats, SIMD and kernels. Knows nothing of models or tokens.

`records` and `layout` tell what kernels are given, `jit` loads them, `dequantize` and `encode` are for anyone. The
kernels: `team` shares their work among threads, `formats` has one file per format, `products` multiplies by them,
`activations` and `attention` are what lies between, `encoders` make formats of float32. All are written in the vectors
of `simd`, and compiled by `compiler`.

This module imports neither numpy nor numba.
"""

FLOAT_FORMATS = ("F32", "F16", "BF16")
"""Formats whose products take float32 activations."""

BLOCK_FORMATS = ("Q8_0", "Q5_1", "Q5_0", "Q4_1", "Q4_0", "IQ4_NL", "MXFP4")
"""Formats whose products take activations quantized with a scale for 32."""

SUPER_FORMATS = ("Q6_K", "Q5_K", "Q4_K", "Q3_K", "Q2_K", "IQ4_XS")
"""Formats whose products take activations quantized with a scale for 256."""

QUANTIZED_FORMATS = BLOCK_FORMATS + SUPER_FORMATS
"""Formats whose products take quantized activations."""

FORMATS = FLOAT_FORMATS + QUANTIZED_FORMATS
"""Names of the tensor types that edgellm computes with."""

ENCODED_FORMATS = (
    *FLOAT_FORMATS,
    *("Q8_0", "Q6_K", "Q5_K", "Q4_K", "Q3_K", "Q2_K", "Q5_1", "Q5_0", "Q4_1", "Q4_0", "IQ4_NL"),
)
"""Names of the tensor types that rows of weights can be encoded to; see `kquants.encode`."""
