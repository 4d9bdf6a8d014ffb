"""One file per tensor format that edgellm computes with; the bit layout is drawn above each.

A quantized format is `unpack(tile)`: what a super-block of 16 rows holds, piece by piece (see
`kquants.formats.pieces`). Products (`kquants.products.tiled`) multiply that; dequantization and embeddings
(`kquants.formats.weights`) make float32 of it. A float format is `lanes(address)` and `lanes_part(address, count)`: 16
weights of WEIGHT_BYTES as float32.
"""
