"""One file per tensor format that edgellm computes with; the bit layout is drawn above each.

A quantized format says twice what its bits mean. For products (`kquants.tiled`), `unpack(tile)` yields what a
super-block of 16 rows holds, piece by piece: see `kquants.pieces`. For dequantization and embeddings
(`kquants.rows`), `block(row, i)` is the i-th 32 weights of the row at an address, as

    w = d · scale · q  -  dmin · minimum

with int8 `q`, one integer scale for each half of the block, and float32 `d` and `dmin`.
(Q2_K, with a minimum for each half, is `weights(row, i)`: the two halves as float32; see `weights.py`.)
A float format is `lanes(address)` and `lanes_part(address, count)`: 16 weights of WEIGHT_BYTES as float32.
"""
