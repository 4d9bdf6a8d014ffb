"""Quantized formats, SIMD and kernels. Knows nothing of models or tokens; this module imports neither numpy nor numba.

What callers use:

    jit             load compiled kernels, compiling those that the cache lacks
    records         the records that kernels read: a batch, and each op of a program
    kv_layout, layout    sizes that kernels and callers agree on: of KV pages, of matmuls and scratch
    ggml            the tensor types of GGUF
    encode, dequantize   rows of float32 to the blocks of a format, and back

What kernels are made of, each package with a guide in its `__init__`:

    matmul          matrix products with the weights of each format
    attention       KV pages, RoPE, attention over pages (`attention/attention.py`)
    activations     norms, biases, SwiGLU, quantization of activations
    encoders        float32 to each format
    formats         the layout of each format and how it is decoded
    threadpool      jobs, ops and the barrier at which threads wait (`threadpool/barrier.py`)
    simd            vectors and the operations on them
    compiler        how a kernel is compiled (`compiler/compile.py`) and cached (`compiler/cache.py`)
    microbenchmark  kernels that measure what the CPU can do at most
"""

FLOAT_FORMATS = ("F32", "F16", "BF16")
"""Formats whose matmuls take float32 activations."""

BLOCK_FORMATS = ("Q8_0", "Q5_1", "Q5_0", "Q4_1", "Q4_0", "IQ4_NL", "MXFP4", "NVFP4", "Q2_0", "Q1_0")
"""Formats whose matmuls take activations quantized with a scale for each 32."""

SUPER_FORMATS = (
    *("Q6_K", "Q5_K", "Q4_K", "Q3_K", "Q2_K"),
    *("IQ4_XS", "IQ3_S", "IQ3_XXS", "IQ2_S", "IQ2_XS", "IQ2_XXS"),
    *("TQ2_0", "TQ1_0", "IQ1_M", "IQ1_S"),
)
"""Formats whose matmuls take activations quantized with a scale for each 256."""

QUANTIZED_FORMATS = BLOCK_FORMATS + SUPER_FORMATS
"""Formats whose matmuls take quantized activations."""

FORMATS = FLOAT_FORMATS + QUANTIZED_FORMATS
"""Names of the tensor types that edgellm computes with."""

ENCODED_FORMATS = (
    *FLOAT_FORMATS,
    *("Q8_0", "Q6_K", "Q5_K", "Q4_K", "Q3_K", "Q2_K", "Q5_1", "Q5_0", "Q4_1", "Q4_0", "IQ4_NL"),
    *("IQ3_S", "IQ3_XXS", "IQ2_XS"),
    *("IQ4_XS", "MXFP4", "NVFP4", "TQ2_0", "TQ1_0"),
)
"""Names of the tensor types that rows of weights can be encoded to; see `kquants.encode`."""
