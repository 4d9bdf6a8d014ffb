"""Matrix products y = W x.

Of quantized weights: `tiled` is the kernel, which goes by way of `tiled_decode` for few rows of x, of `tiled_prefill`
for many. Both multiply by `multiply`, with what belongs to a span of weights from `scaling`: `blocks` or
`super_blocks`. `parts`, `pairs`, `row_by_row`, `amx_blocks` and `amx_super_blocks` are other ways that some
CPUs go, `requests` is what the memory is asked for ahead. Of float weights: `floats`.
"""
