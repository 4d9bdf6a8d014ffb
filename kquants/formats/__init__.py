"""One file per tensor format that edgellm computes with; the bit layout is drawn above each.

A quantized format is one function, `block(row, i)`: the i-th 32 weights of the row at an address, as

    w = d · scale · q  -  dmin · minimum

with int8 `q`, one integer scale for each half of the block, and float32 `d` and `dmin`. Dequantization,
embeddings and the products over float32 are made from it (`kquants.rows`, `kquants.matmul`). Formats with fast
products (`kquants.tiled`) have `tile_scales` and `tile_weights` besides: the same for 16 rows at a time.
(Q2_K, with a minimum for each half, is `weights(row, i)`: the two halves as float32; see `weights.py`.)
A float format is `lanes(address)` and `lanes_part(address, count)`: 16 weights as float32.
"""
