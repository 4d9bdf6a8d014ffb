"""Floor 1: quantized formats, SIMD and kernels. Knows nothing of files, models or tokens.

This module imports neither numpy nor numba; `kquants.jit` loads what `kquants.compile` compiled.
"""

FLOAT_FORMATS = ("F32", "F16", "BF16")
"""Formats whose products take float32 activations."""

QUANTIZED_FORMATS = ("Q8_0", "Q4_K", "Q6_K")
"""Formats whose products take quantized activations."""

UNPACKED_FORMATS = ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q2_K", "Q3_K", "Q5_K", "IQ4_NL", "IQ4_XS", "MXFP4")
"""Quantized formats whose products unpack them to float32 and take float32 activations."""

FORMATS = FLOAT_FORMATS + QUANTIZED_FORMATS + UNPACKED_FORMATS
"""Names of the tensor types that edgellm computes with."""
