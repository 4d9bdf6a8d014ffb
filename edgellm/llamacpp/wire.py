"""The requests to the process with llama.cpp, and its replies; integers are little-endian.

    request  payload                                        payload of an OK reply
    OPEN     JSON of LlamaCppParams                         int32 width of the logits, int32 1 if slots can go back
    DECODE   int32 [rows, 4], columns as in BatchColumn     float32 [wanted rows, vocab]
    TRIM     int32 slot, int32 n                            int32 tokens that the slot holds now: n, or none
    COPY     int32 source slot, int32 target slot           nothing

DECODE and OPEN end as STOPPED after `edgellm.process.wire.STOP`.
"""

import struct
from dataclasses import dataclass
from enum import IntEnum

NUMBER = struct.Struct("<i")
PAIR = struct.Struct("<ii")


class RequestCode(IntEnum):
    """The requests."""

    OPEN = 0
    DECODE = 1
    TRIM = 2
    COPY = 3


class ReplyCode(IntEnum):
    """The replies. FULL: the KV cache has no room for the rows; FAILED: the payload is a line of text that says why."""

    OK = 0
    STOPPED = 1
    FULL = 2
    FAILED = 3


class BatchColumn(IntEnum):
    """The columns of a row of DECODE. A slot is a sequence of llama.cpp; WANTED is 1 if logits are wanted."""

    TOKEN = 0
    POSITION = 1
    SLOT = 2
    WANTED = 3


@dataclass(frozen=True)
class LlamaCppParams:
    """How to open a model: `ctx` cells of KV cache of ggml type `kv_type` for `slots` sequences, `rows` rows a batch.

    With `unified` the slots share the cells; otherwise each has an equal part, and attention over it is faster.
    `repacked` weights take memory beside the map; those for AMX crash on some virtual machines.
    """

    path: str
    ctx: int
    kv_type: int
    slots: int
    rows: int
    threads: int
    unified: bool = True
    repacked: bool = False
