"""An EAGLE-3 head in llama.cpp: the features that it makes, and the rows of its layer. For `llama_cpp_child`."""

import ctypes
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from support.oracle import model_params

Floats = NDArray[np.float32]


class HeadJob(NamedTuple):
    """Files of a target and a head; the layers of the target that the head reads, and the tokens of a text."""

    target: str
    head: str
    layers: list[int]
    tokens: list[int]


class HeadResults(NamedTuple):
    """`inputs` of the target's layers side by side; of each pair of the head its features, state and logits."""

    inputs: Floats
    features: Floats
    states: Floats
    logits: Floats


def head_results(job: HeadJob) -> HeadResults:
    """What llama.cpp computes for a text of n tokens, and for its n - 1 pairs."""
    from llama_cpp import llama_cpp, llama_cpp_ext

    model, target = _open(job.target)
    give, read = _layer_inputs()
    for layer in job.layers:
        give(target, layer, True)
    _process(target, llama_cpp.LLAMA_PROCESS_TYPE_DECODE, job.tokens, None)
    width, rows = llama_cpp.llama_model_n_embd(model), len(job.tokens)
    inputs = np.hstack([_copied(read(target, layer), rows, width) for layer in job.layers])

    head, context = _open(job.head, target)
    llama_cpp_ext.llama_set_embeddings_nextn(context, True, True)
    own_width = llama_cpp.llama_model_n_embd(head)
    _process(context, llama_cpp.LLAMA_PROCESS_TYPE_ENCODE, None, inputs)
    features = _copied(llama_cpp_ext.llama_get_embeddings_nextn(context), rows, own_width)[:-1]
    _process(context, llama_cpp.LLAMA_PROCESS_TYPE_DECODE, job.tokens[1:], features)
    states = [_copied(llama_cpp_ext.llama_get_embeddings_nextn_ith(context, i), 1, own_width) for i in range(rows - 1)]
    vocab = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(model))
    logits = [_copied(llama_cpp.llama_get_logits_ith(context, i), 1, vocab) for i in range(rows - 1)]
    return HeadResults(inputs, features, np.concatenate(states), np.concatenate(logits))


def _layer_inputs() -> tuple[Any, Any]:
    """Functions of llama.cpp that llama-cpp-python does not have: to ask for the input of a layer, and to read it."""
    from llama_cpp import llama_cpp

    give = llama_cpp._lib._Z30llama_set_embeddings_layer_inpP13llama_contextjb
    read = llama_cpp._lib._Z30llama_get_embeddings_layer_inpP13llama_contextj
    give.argtypes, give.restype = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_bool], None
    read.argtypes, read.restype = [ctypes.c_void_p, ctypes.c_uint32], ctypes.POINTER(ctypes.c_float)
    return give, read


def _open(path: str, other: Any = None) -> tuple[Any, Any]:
    """A model and a context, both in float32; `other` is the context of the head's target."""
    from llama_cpp import llama_cpp

    model = llama_cpp.llama_model_load_from_file(path.encode(), model_params())
    params = llama_cpp.llama_context_default_params()
    params.n_ctx = params.n_batch = params.n_ubatch = 64
    params.n_threads = params.n_threads_batch = 1
    params.type_k = params.type_v = llama_cpp.GGML_TYPE_F32
    params.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
    if other is not None:
        params.ctx_other = other
    return model, llama_cpp.llama_init_from_model(model, params)


def _process(context: Any, kind: int, tokens: list[int] | None, features: Floats | None) -> None:
    """Compute rows of tokens, of features, or of both; all are outputs, at positions from 0 on."""
    from llama_cpp import llama_cpp

    batch = llama_cpp.llama_batch_ext_init(context)
    for row in range(len(tokens if tokens is not None else features)):
        embd = None
        if features is not None:
            data = np.ascontiguousarray(features[row]).ctypes.data_as(ctypes.POINTER(ctypes.c_float))
            embd = llama_cpp.llama_embd(data, 1, features.shape[1])
        if tokens is None:
            index = llama_cpp.llama_batch_ext_add_embd(batch, 0, embd)
        else:
            index = llama_cpp.llama_batch_ext_add_token(batch, 0, tokens[row])
            if embd is not None:
                assert llama_cpp.llama_batch_ext_set_embd_token(batch, index, embd)
        assert index == row
        llama_cpp.llama_batch_ext_set_pos(batch, index, ctypes.byref(ctypes.c_int32(row)))
        llama_cpp.llama_batch_ext_set_output_logits(batch, index, True)
    assert llama_cpp.llama_process(context, kind, batch) == 0
    llama_cpp.llama_batch_ext_free(batch)


def _copied(pointer: Any, rows: int, width: int) -> Floats:
    return np.array(np.ctypeslib.as_array(pointer, (rows, width)))
