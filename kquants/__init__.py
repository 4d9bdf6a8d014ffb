"""Floor 1: quantized formats, SIMD and kernels. Knows nothing of files, models or tokens."""
