"""What llama.cpp computes with the head for multi-token prediction of a file; for `llama_cpp_child`."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from support.oracle import model_params

F32 = NDArray[np.float32]


class HeadJob(NamedTuple):
    """A model file, a text, and the tokens that follow each of its tokens in pairs."""

    path: str
    ids: list[int]
    following: list[int]


class HeadRows(NamedTuple):
    """The model's states that a head reads, and what the head gives for each pair: logits and states."""

    features: F32
    logits: F32
    states: F32


def head_rows(job: HeadJob) -> HeadRows:
    """The pairs of a text, computed at once. Positions begin at 0."""
    import llama_cpp as llama
    from llama_cpp import llama_cpp_ext as extended

    given = model_params()
    given.load_mtp = True
    model = llama.llama_model_load_from_file(job.path.encode(), given)
    width, vocab = llama.llama_model_n_embd(model), llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(model))
    target = _context(llama, model, llama.LLAMA_CONTEXT_TYPE_DEFAULT)
    extended.llama_set_embeddings_nextn(target, True, False)
    _process(llama, target, job.ids, None)
    n = len(job.ids)
    features = _copy(extended.llama_get_embeddings_nextn(target), n, width)
    head = _context(llama, model, llama.LLAMA_CONTEXT_TYPE_MTP)
    extended.llama_set_embeddings_nextn(head, True, True)
    _process(llama, head, job.following, features)
    rows = HeadRows(
        features,
        _copy(llama.llama_get_logits(head), n, vocab),
        _copy(extended.llama_get_embeddings_nextn(head), n, width),
    )
    llama.llama_free(head)
    llama.llama_free(target)
    llama.llama_model_free(model)
    return rows


def _context(llama: Any, model: Any, kind: int) -> Any:
    given = llama.llama_context_default_params()
    given.n_ctx, given.n_batch, given.n_ubatch, given.n_threads, given.n_threads_batch = 256, 256, 256, 1, 1
    given.ctx_type, given.type_k, given.type_v = kind, llama.GGML_TYPE_F32, llama.GGML_TYPE_F32
    given.flash_attn_type = llama.LLAMA_FLASH_ATTN_TYPE_DISABLED
    return llama.llama_init_from_model(model, given)


def _process(llama: Any, context: Any, tokens: list[int], features: F32 | None) -> None:
    batch = llama.llama_batch_ext_init(context)
    for i, token in enumerate(tokens):
        index = llama.llama_batch_ext_add_token(batch, 0, token)
        llama.llama_batch_ext_set_pos(batch, index, (llama.llama_pos * 4)(i, i, i, 0))
        if features is not None:
            row = features[i].ctypes.data_as(llama.ctypes.POINTER(llama.ctypes.c_float))
            assert llama.llama_batch_ext_set_embd_token(batch, index, llama.llama_embd(row, 1, features.shape[1]))
        llama.llama_batch_ext_set_output_logits(batch, index, True)
    assert llama.llama_process(context, llama.LLAMA_PROCESS_TYPE_DECODE, batch) == 0
    llama.llama_batch_ext_free(batch)


def _copy(address: Any, rows: int, columns: int) -> F32:
    return np.ctypeslib.as_array(address, (rows, columns)).astype(np.float32).copy()
