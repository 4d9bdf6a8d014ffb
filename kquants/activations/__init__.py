"""Activations between matmuls: norms, biases, SwiGLU (`elementwise`), and their quantization.

`quantized` is for formats without super-blocks, `super_quantized` for those with them.
"""
