"""llama.cpp's quantizer as an oracle, through llama-cpp-python in a child process.

In a child, because llama.cpp aborts the process on errors and writes to file descriptor 2. Run as a script,
this file is that child: jobs as JSON on stdin, one after the other.
"""

import ctypes
import json
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import pytest


class Job(NamedTuple):
    """Quantize `source` to `target`; `file_type` is of llama_ftype, overrides are (pattern, number of a type).

    `columns` are those of tensors by name, for an importance matrix in which all columns matter the same; without any,
    there is none.
    """

    source: str
    target: str
    file_type: int
    overrides: Sequence[tuple[str, int]] = ()
    threads: int = 2
    columns: Sequence[tuple[str, int]] = ()


def llama_cpp_quantize(jobs: Sequence[Job]) -> None:
    """Let llama.cpp do the jobs; the test skips if there is no llama.cpp to ask."""
    if find_spec("llama_cpp") is None:
        pytest.skip("llama-cpp-python is not installed; it is the oracle of this test")
    asked = json.dumps(jobs)
    child = subprocess.run([sys.executable, __file__], input=asked, text=True, capture_output=True, check=False)
    assert child.returncode == 0, f"llama.cpp failed: exit {child.returncode}, {child.stderr[-2000:]}"


def _quantize(job: Job) -> None:
    from llama_cpp import llama_cpp

    class Override(ctypes.Structure):
        _fields_ = (("pattern", ctypes.c_char_p), ("type", ctypes.c_int))

    params: Any = llama_cpp.llama_model_quantize_default_params()
    params.nthread, params.ftype = job.threads, job.file_type
    ended = [*(Override(pattern.encode(), number) for pattern, number in job.overrides), Override()]
    overrides = (Override * len(ended))(*ended)
    params.tt_overrides = ctypes.cast(overrides, type(params.tt_overrides))
    if job.columns:
        params.imatrix = ctypes.cast(_ones(job.columns), type(params.imatrix))
    assert Path(job.source).exists(), job.source
    failed = llama_cpp.llama_model_quantize(job.source.encode(), job.target.encode(), ctypes.byref(params))
    assert not failed, job


def _ones(columns: Sequence[tuple[str, int]]) -> Any:
    """An array of llama_model_imatrix_data, which ends with one without a name."""

    class Entry(ctypes.Structure):
        _fields_ = (("name", ctypes.c_char_p), ("data", ctypes.POINTER(ctypes.c_float)), ("size", ctypes.c_size_t))

    entries = [Entry(name.encode(), (ctypes.c_float * n)(*[1.0] * n), n) for name, n in columns]
    return (Entry * (len(entries) + 1))(*entries)


def main() -> None:
    """Do the jobs on stdin in this process."""
    for job in json.load(sys.stdin):
        _quantize(Job(*job))


if __name__ == "__main__":
    main()
