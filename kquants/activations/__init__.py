"""Activations between matmuls: norms, sums with the residual stream, activation functions, and quantization.

    norms                     RMSNorm and LayerNorm of rows and of heads
    residuals                 biases, scaled sums, the rows whose logits are wanted
    activations               activation functions, alone or times a second projection (SwiGLU)
    gates                     the gate of attention's output, the soft cap of logits
    sparsity                  activations above most of their row
    square_sums               sums of squares of what matrices are multiplied by, for each column
    streams                   alternating updates of four streams
    moments                   means of values, squares and squared deviations
    row_quantizer             rows to quantized rows
    quantized                 the layout of these for formats without super-blocks
    super_quantized           the same for formats with super-blocks
    exponential               exp, exp2, expm1, tanh and sigmoid over 16 lanes
    error_function            erf over 16 lanes

Rows of activations are float32, padded with zeros to a multiple of 16; every op keeps the padding zero.
"""
