"""Matrix products y = W x, for a batch of rows of x: the kernels `matmul_FORMAT`.

quantized        the kernels of quantized formats; `strategy` chooses how a format is multiplied on this CPU
decode           a few rows of x, straight from W: `decode_tile` by `row_per_lane`, `row_pairs` or `row_by_row`
unpack           W unpacked for many rows, into `layouts`: of bytes, int16 (`int16_layouts`), with the factors of
                 scaled sums (`scaled_layout`), or for Winograd's inner product (`winograd_layout`)
prefill          many rows of x: `prefill_rows` by the micro-kernel in `prefill_unit`, or by AMX (`amx_blocks`,
                 `amx_super_blocks`)
scaling          dot products of integers become sums: float scales (`blocks`), integer scales (`super_blocks`)
products         which rows of x belong to which matrix: all to W, or groups of them to matrices of a stack
read_on          what a thread reads behind a matrix, and behind its share
split_k, prefetch, quantized_x, sums    long rows as parts; what comes next; where x lies; sums in scratch
floats           float weights, by `float_ops`

The pieces of W, of x and of the work, and their sizes:

tile             16 rows of W (`kquants.layout.TILE_ROWS`)
strip            up to 4 tiles that prefill works on together (`STRIP`)
block            32 columns of a row
sub-block        the 32 or 16 columns of a row of W that have one scale
super-block      8 blocks, 256 columns, whose sub-blocks are scaled by integers, and these by floats
group            256 columns (`X_GROUP`): a super-block, or 8 blocks of a format without; where rows are meant,
                 consecutive rows of x that belong to one matrix of a stack (`kquants.records.MatmulGroup`)
slot             a row of x in a grouped op, which has several for each row of the batch
slice            up to 256 rows of x that are multiplied together (`SLICE_ROWS`)
unit             of a super-block: a pair of sub-blocks; without super-blocks: a block
part             1/4, 1/8 or 1/16 of the columns of a long row of W: split-K
unit of work     one tile of W, of a grouped op one tile of a group's matrix; in ops that split rows one piece
piece            256 columns of a row (`PIECE`)
share            the consecutive units of work of an op that one thread is given: about units / threads
chunk            the units of work of a share that a thread takes at once: half of its rest in decode, 1/4 in prefill;
                 of one group
"""
