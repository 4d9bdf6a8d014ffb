"""One file per tensor format that edgellm computes with; the bit layout is drawn above each.

They unpack the rows of a tile (`tiles`) to the items of `unpacking`, by operations on `packed_bytes`; `rows` has the
kernels of embeddings and dequantization. `winograd` and `int16` explain two ways to multiply what they unpack.

A quantized format is `unpack(tile)`: what a super-block of 16 rows holds, item by item. `kquants.matmul` multiplies
that, `weights` makes float32 of it. A float format is `lanes(address)` and `lanes_part(address, count)`: 16 weights
of WEIGHT_BYTES as float32.
"""
