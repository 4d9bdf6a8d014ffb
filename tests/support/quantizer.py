"""llama.cpp's quantizer as an oracle, through llama-cpp-python in a child process."""

import ctypes
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from support.llama_cpp_child import ask_llama_cpp

_PLANNED = re.compile(r"\] (\S+) +- \[[^]]*\], type = +(\w+), size = [^(\n]*(?:\((\w+)\))?")
"""A tensor in the log of a dry run: its name, its type, and its new type if that is another one."""


class Job(NamedTuple):
    """Quantize `source`, to `target` if one is given; `file_type` is of llama_ftype, overrides are (pattern, number of
    a type).

    `columns` are those of tensors by name, for an importance matrix in which all columns matter the same; without any,
    there is none.
    """

    source: str
    file_type: int
    overrides: Sequence[tuple[str, int]] = ()
    columns: Sequence[tuple[str, int]] = ()
    target: str = ""


def llama_cpp_quantize(source: Path, target: Path, file_type: int) -> None:
    """Let llama.cpp quantize a file; the test skips if there is no llama.cpp to ask."""
    ask_llama_cpp(_quantize, Job(str(source), file_type, target=str(target)))


def llama_cpp_types(jobs: Sequence[Job]) -> list[dict[str, str]]:
    """For each job the types that llama.cpp would give the tensors, by name; the test skips as above."""
    found: list[dict[str, str]] = ask_llama_cpp(_plan, jobs)
    return found


def _plan(jobs: Sequence[Job]) -> list[dict[str, str]]:
    from llama_cpp import llama_cpp
    from llama_cpp._logger import llama_log_callback

    lines: list[str] = []
    note = llama_cpp.llama_log_callback(lambda level, text, data: lines.append(text.decode()))
    plans = []
    for job in jobs:
        lines.clear()
        llama_cpp.llama_log_set(note, None)
        _quantize(job)
        llama_cpp.llama_log_set(llama_log_callback, None)
        found = _PLANNED.findall("".join(lines))
        plans.append({name: (new or old).upper() for name, old, new in found})
    return plans


def _quantize(job: Job) -> None:
    from llama_cpp import llama_cpp

    class Override(ctypes.Structure):
        _fields_ = (("pattern", ctypes.c_char_p), ("type", ctypes.c_int))

    params: Any = llama_cpp.llama_model_quantize_default_params()
    params.nthread, params.ftype, params.dry_run = 1, job.file_type, not job.target
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
