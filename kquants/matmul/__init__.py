"""Matrix products y = W x, for a batch of rows of x: the kernels `matmul_FORMAT`.

quantized        the kernels of quantized formats; `strategy` chooses how a format is multiplied on this CPU
decode           a few rows of x, straight from W: `decode_tile` by `row_per_lane`, `row_pairs` or `row_by_row`
unpack           W unpacked for many rows, into `layouts`: of bytes, int16 (`int16_layouts`), with the factors of
                 scaled sums (`scaled_layout`), or for Winograd's inner product (`winograd_layout`)
prefill          many rows of x: `prefill_rows` by the micro-kernel in `prefill_unit`, or by AMX (`amx_blocks`,
                 `amx_super_blocks`)
scaling          dot products of integers become sums: float scales (`blocks`), integer scales (`super_blocks`)
split_k, prefetch, groups, sums    long rows as parts; what comes next; where W and x lie; sums in scratch
floats           float weights, by `float_ops`
"""
