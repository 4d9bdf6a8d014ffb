"""Model files with a head for multi-token prediction, and their engines."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import copyfile

import numpy as np

from edgellm.arch import describe_head
from edgellm.engine.head_engine import HeadEngine
from edgellm.engine.native_engine import NativeEngine
from edgellm.gguf import GGUFFile
from edgellm.system.folders import cache_folder

HEADS = ("qwen3_5", "qwen3_5_moe", "qwen3_next", "glm4_5_air")
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


@contextmanager
def opened_with_head(path: Path, threads: int = 2, kv_type: str = "f16", ctx: int = 256) -> Iterator[NativeEngine]:
    """The engine of a file, with that of its head."""
    with GGUFFile.open(path) as file:
        engine = NativeEngine(
            file,
            threads=threads,
            ctx=ctx,
            kv_type=kv_type,
            cache=cache_folder(),
            read_head=lambda model: describe_head(file, model),
        )
        yield engine
        engine.close()


def head_of(engine: NativeEngine) -> HeadEngine:
    """The engine of the head, which there is."""
    assert engine.head
    return engine.head
