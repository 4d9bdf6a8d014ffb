"""Model files with a head for multi-token prediction, and their engines."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import copyfile
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from edgellm.arch import describe, describe_head
from edgellm.arch.head import Head
from edgellm.engine.head_engine import HeadEngine
from edgellm.engine.head_request import HeadRequest
from edgellm.engine.native_engine import NativeEngine
from edgellm.gguf import GGUFFile
from edgellm.system.folders import cache_folder

HEADS = ("qwen3_5", "qwen3_next", "glm4_5_air")
"""Cases of `support.families` whose files have a head."""


def with_random_head(source: Path, path: Path, seed: int = 0) -> Path:
    """A copy of a file, F32, whose tensors `nextn`, zeros in the cases of `support.families`, are random."""
    copyfile(source, path)
    rng = np.random.default_rng(seed)
    with GGUFFile.open(source) as file, path.open("r+b") as copy:
        for tensor in file.tensors.values():
            if ".nextn." in tensor.name:
                spread, mean = (0.2, 1.0) if len(tensor.shape) == 1 else (tensor.shape[-1] ** -0.5, 0.0)
                copy.seek(tensor.offset)
                copy.write((mean + spread * rng.standard_normal(tensor.size)).astype("<f4").tobytes())
    return path


def needed(head: Head, check: Callable[[], None] = lambda: None) -> HeadRequest:
    """Asks an engine for a head: leaving it out fails the test."""

    def fail(why: str) -> NoReturn:
        raise AssertionError(f"the head is left out: {why}")

    return HeadRequest(head, fail, check=check)


@contextmanager
def opened_with_head(
    path: Path,
    threads: int = 2,
    kv_type: str = "f16",
    ctx: int = 256,
    asked: Callable[[Head], HeadRequest] = needed,
) -> Iterator[NativeEngine]:
    """The engine of a file, with that of its head."""
    with GGUFFile.open(path) as file:
        head = describe_head(file, describe(file))
        engine = NativeEngine(
            file,
            threads=threads,
            ctx=ctx,
            kv_type=kv_type,
            cache=cache_folder(),
            draft_head=asked(head) if head else None,
        )
        yield engine
        engine.close()


def head_of(engine: NativeEngine) -> HeadEngine:
    """The engine of the head, which there is."""
    assert engine.draft_head
    return engine.draft_head


def with_certain_head(source: Path, path: Path, is_right: bool) -> Path:
    """A copy of a file, F32, whose text is known: behind each token comes the one that its output matrix has it give.

    Mixers and feed-forwards add nothing, and norms have the weight 1: logits are those of the embedding of the last
    token, whose largest is that of the next id, or where output matrix and embedding are one that of the same. The
    head reads the embedding alone, and so is right; or nothing.
    """
    copyfile(source, path)
    with GGUFFile.open(source) as file, path.open("r+b") as copy:
        embedding = np.random.default_rng(0).standard_normal(file.tensors["token_embd.weight"].shape)
        for tensor in file.tensors.values():
            copy.seek(tensor.offset)
            copy.write(_certain(tensor.name, tensor.shape, embedding, is_right).astype("<f4").tobytes())
    return path


def _certain(name: str, shape: tuple[int, ...], embedding: NDArray[np.float64], is_right: bool) -> NDArray[np.float64]:
    stem = name.removesuffix(".weight").rpartition(".")[2]
    if stem == "token_embd":
        return embedding
    if stem == "output":
        return np.roll(embedding, 1, axis=0)
    if stem == "eh_proj":
        return np.eye(*shape) * is_right
    return np.ones(shape) if "norm" in stem else np.zeros(shape)
