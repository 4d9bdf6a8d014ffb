"""The engine llama.cpp: batches of rows in, logits out."""

import json
from collections.abc import Sequence as Ids
from dataclasses import asdict
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgellm.engine.kv_stats import KVStats
from edgellm.engine.protocol import Segment, Stopped, check_batch
from edgellm.errors import EdgeLLMError, OptionError, UnsupportedModelError
from edgellm.fmt import printable, shown_path
from edgellm.gguf import GGUFFile
from edgellm.llamacpp.kept_sequences import KeptSequences
from edgellm.llamacpp.process import LlamaCppProcess
from edgellm.llamacpp.slots import Slots, SlotSequence
from edgellm.llamacpp.wire import PAIR, BatchColumn, LlamaCppParams, ReplyCode, RequestCode
from edgellm.system.optional_packages import install_command
from kquants.ggml import NAMED_TYPES
from kquants.kv_layout import PAGE

MAX_ROWS = 256
"""Rows of the largest batch. It is small, as llama.cpp stops only between ops."""

DEFAULT_CTX = 8192
"""The largest context by default, as llama.cpp takes the memory for all of it when it opens a file."""

_SLOTS = 16


class LlamaCppEngine:
    """A model in llama.cpp, in a child process; see `edgellm.engine.protocol.Engine`.

    It runs all architectures and tensor types of the installed llama.cpp.
    """

    batch_invariant = False

    def __init__(self, file: GGUFFile, *, threads: int, ctx: int | None, kv_type: str) -> None:
        """Open the model of an open file. Raises UnsupportedModelError, ModelFileError, OptionError, EdgeLLMError."""
        if find_spec("llama_cpp") is None:
            raise EdgeLLMError(f"the engine llama.cpp is not installed; run: {install_command('llama-cpp-python')}")
        self.threads = threads
        self.ctx = _context(file, ctx)
        self.max_rows = min(MAX_ROWS, self.ctx)
        self.devices: list[dict[str, Any]] = [_device(file)]
        self._child = LlamaCppProcess(shown_path(file.path))
        try:
            self.vocab, goes_back = self._open(file, kv_type)
        except BaseException:
            self.close()
            raise
        self._slots = Slots(self._child, _SLOTS, goes_back)
        self._kept = KeptSequences(partial(SlotSequence, self._slots))  # no reference to `self`
        self.begin, self.retire, self.evict = self._kept.begin, self._kept.retire, self._kept.evict

    def _open(self, file: GGUFFile, kv_type: str) -> tuple[int, bool]:
        kv_number = NAMED_TYPES[kv_type.upper()].number
        path = str(file.path.absolute())
        params = LlamaCppParams(path, self.ctx, kv_number, _SLOTS, self.max_rows, self.threads)
        reply, payload = self._child.call(RequestCode.OPEN, json.dumps(asdict(params)).encode())
        if reply != ReplyCode.OK:
            raise UnsupportedModelError(self._fault(payload, "update llama-cpp-python, or get another conversion"))
        vocab, goes_back = PAIR.unpack(payload)
        return vocab, bool(goes_back)

    def new_sequence(self) -> SlotSequence:
        """An empty sequence."""
        return SlotSequence(self._slots)

    def kv_stats(self) -> KVStats:
        """Zeros: llama.cpp takes the memory for one context when it opens a file, and tells no more."""
        return KVStats(0, 0, 0, PAGE, 0, 0)

    def forward(self, segments: Ids[Segment[SlotSequence]]) -> NDArray[np.float32]:
        """Compute up to `max_rows` rows, of different sequences; return float32 [wanted rows, vocab].

        Each sequence then holds its new tokens. Raises Stopped, ContextOverflowError, and EdgeLLMError for token
        ids that the model does not have, or once llama.cpp has ended; the sequences then are as they were.
        """
        check_batch(self, segments)
        busy = [segment.sequence for segment in segments]
        for sequence in busy:
            self._restore(sequence, busy)
        logits = self._decode(segments, busy)
        for segment in segments:
            segment.sequence.tokens.extend(segment.tokens)
        return logits

    def _restore(self, sequence: SlotSequence, busy: Ids[SlotSequence]) -> None:
        """Give a sequence a slot with the state of exactly its tokens; lost state is computed again."""
        self._slots.place(sequence, busy)
        self._slots.trim(sequence, sequence.held)
        while sequence.held < len(sequence.tokens):
            lost = sequence.tokens[sequence.held : sequence.held + self.max_rows]
            self._decode([Segment(sequence, lost)], busy)

    def _decode(self, segments: Ids[Segment[SlotSequence]], busy: Ids[SlotSequence]) -> NDArray[np.float32]:
        """Compute tokens that follow those in the slots, which then hold them."""
        rows = np.concatenate([_rows(segment) for segment in segments])
        for segment in segments:
            segment.sequence.dirty = True
        while True:
            reply, payload = self._child.call(RequestCode.DECODE, rows.tobytes())
            if reply == ReplyCode.FULL and self._slots.make_room(busy):
                continue
            if reply != ReplyCode.OK:
                raise self._refusal(reply, payload)
            for segment in segments:
                segment.sequence.held += len(segment.tokens)
                segment.sequence.dirty = False
            return np.frombuffer(payload, np.float32).reshape(-1, self.vocab).copy()

    def _refusal(self, reply: int, payload: bytes) -> Exception:
        if reply == ReplyCode.STOPPED:
            return Stopped()
        if reply == ReplyCode.FULL:
            return EdgeLLMError(
                f"llama.cpp has one context of {self.ctx} tokens for all that is computed at once, and it is full: "
                "raise --ctx"
            )
        return EdgeLLMError(self._fault(payload, "open the model again, or leave --engine out"))

    def _fault(self, payload: bytes, advice: str) -> str:
        said = self._child.stderr_tail()
        problem = printable(payload.decode(errors="replace"), 200)
        return f"{self._child.name}: llama.cpp {problem}{f' ({said})' if said else ''}; {advice}"

    def stop(self) -> None:
        """Stop the running `forward`, or the next: it raises Stopped until `clear_stop`."""
        self._child.stop()

    def clear_stop(self) -> None:
        """Forget an earlier `stop`."""
        self._child.clear_stop()

    def close(self) -> None:
        """End the process. No `forward` may be running."""
        self._child.close()


def _context(file: GGUFFile, asked: int | None) -> int:
    trained = file.get_int(f"{file.architecture}.context_length", None)
    if asked is not None and trained is not None and asked > trained:
        raise OptionError(
            f"option ctx cannot be {asked}: {printable(file.path.name)} was made for up to {trained} tokens"
        )
    return asked or min(DEFAULT_CTX, trained or DEFAULT_CTX)


def _device(file: GGUFFile) -> dict[str, Any]:
    layers = file.get_int(f"{file.architecture}.block_count", 0)
    weights = sum(tensor.nbytes for tensor in file.tensors.values())
    return {"name": "llama.cpp CPU", "blocks": 2 * layers + 1, "bytes": weights}


def _rows(segment: Segment[SlotSequence]) -> NDArray[np.int32]:
    """The rows of DECODE, int32 [tokens, 4]."""
    assert segment.sequence.slot is not None
    n = len(segment.tokens)
    rows = np.zeros((n, len(BatchColumn)), np.int32)
    rows[:, BatchColumn.TOKEN] = segment.tokens
    rows[:, BatchColumn.POSITION] = segment.sequence.held + np.arange(n)
    rows[:, BatchColumn.SLOT] = segment.sequence.slot
    rows[list(segment.wanted), BatchColumn.WANTED] = 1
    return rows
