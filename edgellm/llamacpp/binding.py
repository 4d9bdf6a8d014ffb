"""A model in llama.cpp, through the low-level API of llama-cpp-python. Only the child process imports this."""

import ctypes
import sys
from typing import Any

import llama_cpp as lib
import numpy as np
from numpy.typing import NDArray

from edgellm.llamacpp.stop_flag import StopFlag
from edgellm.llamacpp.wire import BatchColumn, LlamaCppParams, ReplyCode

_ERROR, _CONTINUED = 4, 5  # of enum ggml_log_level
_STATUS = {0: ReplyCode.OK, 1: ReplyCode.FULL, 2: ReplyCode.STOPPED}  # of llama_decode


class LlamaCppError(Exception):
    """A call of llama.cpp failed."""


class LlamaContext:
    """An open model with its KV cache. Raises LlamaCppError; llama.cpp writes more to stderr.

    `goes_back` tells whether a slot can drop its last tokens and keep the others: not with recurrent layers.
    """

    def __init__(self, config: LlamaCppParams, stop: StopFlag) -> None:
        self._keep = (stop, _errors_to_stderr(), lib.llama_progress_callback(lambda done, data: not stop))
        lib.llama_backend_init()
        params = self._model_params(config.repacked)
        self._model = lib.llama_model_load_from_file(config.path.encode(), params)
        if not self._model:
            raise LlamaCppError("cannot load it")
        if lib.llama_model_has_encoder(self._model) or not lib.llama_model_has_decoder(self._model):
            raise LlamaCppError("has no plain decoder for it, as text generation needs")
        self._context = lib.llama_init_from_model(self._model, _context_params(config, stop))
        if not self._context:
            raise LlamaCppError(f"cannot make a context of {config.ctx} tokens for it")
        self._memory = lib.llama_get_memory(self._context)
        is_recurrent = lib.llama_model_is_recurrent(self._model)
        # Older versions of llama-cpp-python have no function that tells whether a model is hybrid.
        is_hybrid = getattr(lib, "llama_model_is_hybrid", lambda model: False)(self._model)
        self.goes_back = not (is_recurrent or is_hybrid)
        self.vocab: int = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(self._model))

    def _model_params(self, repacked: bool) -> Any:
        params = lib.llama_model_default_params()
        params.n_gpu_layers = 0
        params.progress_callback = self._keep[2]
        params.use_extra_bufts = repacked
        return params

    def decode(self, rows: NDArray[np.int32]) -> tuple[ReplyCode, bytes]:
        """Compute rows, int32 with the columns of BatchColumn; the payload of OK has the logits of the wanted rows."""
        columns = rows.T.copy()
        wanted = columns[BatchColumn.WANTED].astype(np.int8)
        slot_of_row = columns[BatchColumn.SLOT : BatchColumn.SLOT + 1]
        pointers = slot_of_row.ctypes.data + slot_of_row.itemsize * np.arange(len(rows))
        ones = np.ones(len(rows), np.int32)
        fields = (columns[BatchColumn.TOKEN], None, columns[BatchColumn.POSITION], ones, pointers, wanted)
        status = lib.llama_decode(self._context, lib.llama_batch(len(rows), *map(_pointer, fields, _BATCH_TYPES)))
        if status not in _STATUS:
            raise LlamaCppError(f"could not compute (llama_decode gave {status})")
        return _STATUS[status], self._logits(int(wanted.sum())) if status == 0 else b""

    def _logits(self, n: int) -> bytes:
        if n == 0:
            return b""
        found = lib.llama_get_logits(self._context)
        if not found:
            raise LlamaCppError("makes no logits with this model")
        return ctypes.string_at(found, 4 * n * self.vocab)

    def trim(self, slot: int, n: int) -> int:
        """Keep the first `n` tokens of a slot, or none if its state cannot go back; return how many are left."""
        if n and lib.llama_memory_seq_rm(self._memory, slot, n, -1):
            return n
        lib.llama_memory_seq_rm(self._memory, slot, -1, -1)
        return 0

    def copy(self, source: int, target: int) -> None:
        """Let an empty slot share the state of another."""
        lib.llama_memory_seq_cp(self._memory, source, target, -1, -1)


_BATCH_TYPES = [kind for _, kind in lib.llama_batch._fields_[1:]]


def _pointer(array: NDArray[Any] | None, kind: Any) -> Any:
    return None if array is None else array.ctypes.data_as(kind)


def _context_params(config: LlamaCppParams, stop: StopFlag) -> Any:
    params = lib.llama_context_default_params()
    params.n_ctx, params.n_seq_max, params.kv_unified = config.ctx, config.slots, config.unified
    params.n_batch = params.n_ubatch = config.rows
    params.n_threads = params.n_threads_batch = config.threads
    params.type_k = params.type_v = config.kv_type
    if config.kv_type == lib.GGML_TYPE_F32:  # flash attention would round keys and values to f16
        params.flash_attn_type = lib.LLAMA_FLASH_ATTN_TYPE_DISABLED
    params.offload_kqv = params.op_offload = False
    params.abort_callback = ctypes.cast(stop.callback, lib.ggml_abort_callback)
    params.abort_callback_data = stop.data
    return params


def _errors_to_stderr() -> Any:
    """Let llama.cpp write errors to stderr, and nothing else; the returned object must be kept alive."""
    level = 0

    def write(at: int, text: bytes, data: object) -> None:
        nonlocal level
        level = level if at == _CONTINUED else at
        if level == _ERROR:
            sys.stderr.buffer.write(text)
            sys.stderr.buffer.flush()

    callback = lib.llama_log_callback(write)
    lib.llama_log_set(callback, None)
    return callback
