"""KV pages, and attention over them with partial softmaxes, as in FlashAttention and flash-decoding.

pages        layout of KV pages; the kernels `rope_store_*`, which rotate q and k and write k and v
rope         RoPE of a head
attention    the kernels `attention_*` and `attention_merge`
work_list    how an op's work is distributed over threads, with split-KV
row_tiles    tiles of rows, of which the list consists
tile_steps   what a tile of queries does with a KV block: scores, weights, values
query_tile   a tile of queries, and where its scratch lies
softmax      weights and partial results; how partial results are merged
page_readers how pages of each KV type are read, of what is in `float_pages`, `q8_pages` and `q8_scores`
micro_tile   the accumulators in registers: a few queries times a few vectors
"""
