"""llama.cpp as an independent oracle, through llama-cpp-python in a child process."""

import ctypes
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from support.llama_cpp_child import ask_llama_cpp

if TYPE_CHECKING:
    from llama_cpp import Llama


def llama_cpp_logits(
    path: Path, ids: list[int], *, n_threads: int = 1, flash_attention: bool = False, kv_type: str = "f16"
) -> NDArray[np.float32]:
    """llama.cpp's logits of every position, (n, vocab) float32. `kv_type` is f16, f32 or q8_0."""
    return _ask(_logits, path, ids=ids, n_threads=n_threads, flash_attention=flash_attention, kv_type=kv_type)


def llama_cpp_greedy(path: Path, prompt: str, n: int) -> str:
    """The greedy completion of `prompt` with at most `n` tokens, without the prompt."""
    return str(_ask(_greedy, path, prompt=prompt, n=n))


def llama_cpp_tokens(path: Path, text: str, *, add_bos: bool = False, special: bool = False) -> list[int]:
    """The token ids of a text; `special` reads the text of control tokens as those tokens."""
    ids: list[int] = _ask(_tokens, path, text=text, add_bos=add_bos, special=special)
    return ids


def llama_cpp_ends(path: Path) -> set[int]:
    """The ids of all tokens that end a generation."""
    return set(_ask(_ends, path))


def llama_cpp_squares(path: Path, ids: list[int]) -> dict[str, tuple[NDArray[np.float64], NDArray[np.int64]]]:
    """For each tensor of a model the sums of squares of what llama.cpp multiplies by it, and the rows: as `Squares`."""
    found: dict[str, Any] = _ask(_squares, path, ids=ids, kv_type="f32")
    return found


def _ask(task: Callable[[dict[str, Any]], Any], path: Path, **job: object) -> Any:
    return ask_llama_cpp(task, job | {"path": str(path)})


def model_params() -> Any:
    """Parameters for a model of llama.cpp, with its plain kernels; they are the caller's own."""
    from llama_cpp import llama_cpp

    params = llama_cpp.llama_model_default_params()
    # Repacked weights choose other kernels on every CPU, and those for AMX crash on some virtual machines.
    params.use_extra_bufts = False
    return params


def _open(job: dict[str, Any], **options: int) -> "Llama":
    """A llama.cpp model with its plain kernels and the RoPE settings of the file (-1 asks for those)."""
    from llama_cpp import Llama, llama_cpp

    kv = getattr(llama_cpp, f"GGML_TYPE_{job.get('kv_type', 'f16').upper()}")
    settings: dict[str, Any] = {"type_k": kv, "type_v": kv, **options}
    settings |= dict.fromkeys(("n_threads", "n_threads_batch"), job.get("n_threads", 1))
    settings |= dict.fromkeys(("yarn_attn_factor", "yarn_beta_fast", "yarn_beta_slow"), -1.0)
    # `Llama` changes what it is given: a later model of this process must not be opened as this one, say vocab_only.
    params = model_params()
    with patch.object(llama_cpp, "llama_model_default_params", lambda: params):
        return Llama(job["path"], verbose=False, **settings)


def _logits(job: dict[str, Any]) -> NDArray[Any]:
    n = len(job["ids"])
    options = {"n_ctx": n, "n_batch": n, "n_ubatch": n, "logits_all": True, "flash_attn": job["flash_attention"]}
    with closing(_open(job, **options)) as model:
        model.eval(job["ids"])
        return np.array(model.scores[:n], np.float32)


def _greedy(job: dict[str, Any]) -> str:
    with closing(_open(job, n_ctx=0)) as model:
        reply: Any = model(job["prompt"], max_tokens=job["n"], temperature=0.0)
    return str(reply["choices"][0]["text"])


def _tokens(job: dict[str, Any]) -> list[int]:
    with closing(_open(job, vocab_only=True)) as model:
        return list(model.tokenize(job["text"].encode(), job["add_bos"], job["special"]))


def _ends(job: dict[str, Any]) -> list[int]:
    from llama_cpp import llama_cpp

    with closing(_open(job, vocab_only=True)) as model:
        vocab = model._model.vocab
        return [i for i in range(model.n_vocab()) if llama_cpp.llama_vocab_is_eog(vocab, i)]


class GGMLTensor(ctypes.Structure):
    """`ggml_tensor` of ggml.h."""


GGMLTensor._fields_ = [
    ("type", ctypes.c_int),
    ("buffer", ctypes.c_void_p),
    ("ne", ctypes.c_int64 * 4),
    ("nb", ctypes.c_size_t * 4),
    ("op", ctypes.c_int),
    ("op_params", ctypes.c_int32 * 16),
    ("flags", ctypes.c_int32),
    ("src", ctypes.POINTER(GGMLTensor) * 10),
    ("view_src", ctypes.c_void_p),
    ("view_offs", ctypes.c_size_t),
    ("data", ctypes.c_void_p),
    ("name", ctypes.c_char * 64),
]


class Squares:
    """Adds up the squares of the inputs of products, as llama.cpp's imatrix tool does, in float64.

    `found` has for each tensor the sums [matrices, columns] and the rows of each matrix: int64, one for each expert of
    a MUL_MAT_ID, else a single one.
    """

    def __init__(self) -> None:
        from llama_cpp import llama_cpp

        base = sorted((Path(llama_cpp.__file__).parent / "lib").glob("*ggml-base.*"))[0]
        self._op_name = ctypes.CDLL(str(base)).ggml_op_name
        self._op_name.restype = ctypes.c_char_p
        self.found: dict[str, tuple[NDArray[np.float64], NDArray[np.int64]]] = {}
        self.callback = llama_cpp.ggml_backend_sched_eval_callback(self._observe)

    def _observe(self, address: int, ask: bool, unused: object) -> bool:
        node = ctypes.cast(address, ctypes.POINTER(GGMLTensor)).contents
        op = self._op_name(node.op).decode()
        name = node.src[0].contents.name.decode() if op.startswith("MUL_MAT") else ""
        if name.endswith(".weight") and not ask:
            (self._add_experts if op == "MUL_MAT_ID" else self._add)(name, node)
        return name.endswith(".weight") if ask else True

    def _add(self, name: str, node: GGMLTensor) -> None:
        x = _floats(node.src[1].contents, np.float32).astype(np.float64)  # [batches, matrices, rows, columns]
        matrices = node.src[0].contents.ne[2]
        if matrices == 1:
            x = x.reshape(1, 1, -1, x.shape[-1])
        sums, counts = self._sums(name, matrices, x.shape[-1], 1)
        sums += (x**2).sum(axis=(0, 2))
        counts += x.shape[2]

    def _add_experts(self, name: str, node: GGMLTensor) -> None:
        x = _floats(node.src[1].contents, np.float32)[0].astype(np.float64)  # [rows, experts used or 1, columns]
        chosen = _floats(node.src[2].contents, np.int32)[0, 0]
        experts = node.src[0].contents.ne[2]
        sums, counts = self._sums(name, experts, x.shape[-1], experts)
        for row, experts_of_row in enumerate(chosen):
            for i, expert in enumerate(experts_of_row):
                sums[expert] += x[row, i % x.shape[1]] ** 2
                counts[expert] += 1

    def _sums(self, name: str, matrices: int, columns: int, counted: int) -> Any:
        new = np.zeros((matrices, columns)), np.zeros(counted, np.int64)
        return self.found.setdefault(name, new)


def _floats(tensor: GGMLTensor, kind: Any) -> NDArray[Any]:
    """The values of a tensor of 4-byte numbers, outermost dimension first: a copy."""
    ne, nb = list(tensor.ne)[::-1], list(tensor.nb)[::-1]
    nbytes = sum((n - 1) * stride for n, stride in zip(ne, nb, strict=True)) + 4
    memory = np.frombuffer(ctypes.string_at(tensor.data, nbytes), np.uint8)
    return np.ndarray(ne, kind, memory, strides=nb).copy()


def _squares(job: dict[str, Any]) -> dict[str, tuple[NDArray[np.float64], NDArray[np.int64]]]:
    from llama_cpp import llama_cpp

    squares, n = Squares(), len(job["ids"])
    usual = llama_cpp.llama_context_default_params
    defaults = usual()
    defaults.cb_eval = squares.callback
    llama_cpp.llama_context_default_params = lambda: defaults
    try:
        model = _open(job, n_ctx=n, n_batch=n, n_ubatch=n, logits_all=True, flash_attn=False)
    finally:
        llama_cpp.llama_context_default_params = usual
    with closing(model):
        squares.found.clear()
        model.eval(job["ids"])
    return squares.found
