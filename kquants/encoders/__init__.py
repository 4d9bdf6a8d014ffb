"""Encoders: rows of float32 to the blocks of each format. The file of a format registers its kernel.

`encode_NAME(source, rows, columns, importance, target, result)`, all int64:

    source      address of float32 [rows, columns], columns a multiple of the format's block
    importance  address of float32 [columns], the weights of the squared errors, or 0
    target      address of the packed rows
    result      address of the record of `encode_result`

A row's bytes depend only on the row and the importance. `kquants.encode` calls the kernels. Except in Q8_0 and the
float formats, 16 blocks are encoded at once, one per SIMD lane:

    blocks            the kernel of formats with a scale for each 32 or 16 weights: Q4_0, Q5_0, IQ4_NL (`signed`), Q4_1,
                      Q5_1 (`unsigned`), MXFP4, NVFP4 (`e2m1`)
    scale_search      the best scale of such blocks; `scale_min_search`: the best scale and minimum
    super_blocks      the kernel of super-blocks: 256 weights whose blocks share a float16 or two
    k_scale_search    the best scales of their blocks (Q3_K, Q6_K, IQ4_XS)
    k_scale_min_search, least_squares    scales and minima (Q2_K, Q4_K, Q5_K)
    grid_scale_search, grid_search    scales of the formats of grids (IQ3_S, IQ3_XXS, IQ2_XS), and the nearest points
    grid_packing      their points and signs to bits
    ternary           the best scale of ternary weights (TQ2_0, TQ1_0)
    packing           codes of four or five bits to bytes
    lane_ops, vectors, encode_result    operations that only encoders need, and what they report
"""
