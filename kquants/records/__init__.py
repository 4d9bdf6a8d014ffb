"""The records that kernels read from memory: what a batch is, and what each op of a program does.

A word is an int64: a number, an address, or the bits of a float32. Each NamedTuple names the words of a record in their
order. An op's record has OP_WORDS words, and a program is an array of such records:

    word  0      1     2             3       4       5     6            7 ...
          kernel units units_per_row outputs barrier slots units_factor arguments of the kernel (a class whose name
                                                                        ends in `Op`), zeros

A batch's record has the words of BatchRecord.

Rows of activations (x, y, h, q, k, v) are float32, padded with zeros to whole vectors of 16; `x_bytes` is the number of
bytes from a row of x to the next, and `y_bytes` and the others likewise. The layout of quantized rows is in
`kquants.activations.quantized` (q8) and `super_quantized` (super_q8). Imports no compiler, so that callers need none.

Cell: the KV slot of one token of a sequence. KV group: the layers whose KV pages are allocated together, since they see
the same cells; each group has page tables and pages of its own.

    header           a word, and the words that all ops have
    batch            the record of a batch
    rows, norms, activations, streams, matmul, experts, attention, latent, recurrent,
    microbenchmark
                     the arguments of kernels
    arguments        all of them together, and the record of an op
"""

from kquants.records.activations import *  # noqa: F403
from kquants.records.arguments import *  # noqa: F403
from kquants.records.attention import *  # noqa: F403
from kquants.records.batch import *  # noqa: F403
from kquants.records.experts import *  # noqa: F403
from kquants.records.header import *  # noqa: F403
from kquants.records.latent import *  # noqa: F403
from kquants.records.matmul import *  # noqa: F403
from kquants.records.microbenchmark import *  # noqa: F403
from kquants.records.norms import *  # noqa: F403
from kquants.records.recurrent import *  # noqa: F403
from kquants.records.rows import *  # noqa: F403
from kquants.records.streams import *  # noqa: F403
