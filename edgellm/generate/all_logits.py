"""The logits of every position of a text."""

from collections.abc import Sequence
from operator import index

import numpy as np
from numpy.typing import NDArray

from edgellm.engine.budget import check_memory
from edgellm.engine.protocol import Segment
from edgellm.errors import OptionError
from edgellm.generate.batching.cancel_flag import CancelFlag
from edgellm.generate.session import Session

_BATCH_BYTES = 32 << 20
"""Largest logits of one batch, so that a large vocabulary needs little memory."""


def all_logits(session: Session, token_ids: Sequence[int], chunk: int | None = None) -> NDArray[np.float32]:
    """The logits of every position, float32 [n_tokens, n_vocab], in a sequence of their own; see `Model.logits`."""
    if chunk is not None and chunk < 1:
        raise OptionError(f"option chunk cannot be {chunk}: give a whole number from 1 on")
    ids = checked_ids(token_ids)
    session.check_open()
    session.check_fits(ids)
    engine = session.engine
    step = min(engine.max_rows, chunk or max(1, _BATCH_BYTES // (4 * engine.vocab)))
    check_memory(4 * len(ids) * engine.vocab, "logits", "ask for those of fewer tokens at once")
    out = np.empty((len(ids), engine.vocab), np.float32)
    sequence = engine.new_sequence()
    for start in range(0, len(ids), step):
        batch = ids[start : start + step]
        segment = Segment(sequence, batch, range(len(batch)))
        out[start : start + len(batch)] = session.forward(segment, CancelFlag(engine))
    return out


def checked_ids(token_ids: Sequence[int]) -> list[int]:
    """Token ids as plain integers. Raises OptionError for other values and for an empty sequence."""
    try:
        ids = list(map(index, token_ids))
    except TypeError:
        raise OptionError("token_ids must be a sequence of whole numbers") from None
    if not ids:
        raise OptionError("token_ids must have at least one id")
    return ids
