"""Matrix products y = W x: `floats` for float weights, `tiled` for quantized ones."""
