"""One file per tensor format that edgellm computes with; the bit layout is drawn above each.

They are written in the words of `pieces` and `quads`, about the rows of a tile (`tiles`), and `rows` has the
kernels of embeddings and dequantization.

A quantized format is `unpack(tile)`: what a super-block of 16 rows holds, piece by piece. Products
(`kquants.matmul.quantized`) multiply that, `weights` makes float32 of it. A float format is `lanes(address)` and
`lanes_part(address, count)`: 16 weights of WEIGHT_BYTES as float32.
"""
