"""The baseline engine, llama.cpp: in a child process, asked over pipes, idle between requests."""

import json
import tempfile
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

from edgellm.bench.options import BenchOptions
from edgellm.bench.workload import warm_up
from edgellm.errors import EdgeLLMError
from edgellm.fmt import printable, shown_path
from edgellm.llamacpp.wire import LlamaCppParams
from edgellm.process.spawn import exit_reason, start, stderr_tail
from edgellm.system.optional_packages import install_command
from kquants.ggml import NAMED_TYPES

BATCH = 512
"""Rows of a batch, llama.cpp's own default of `n_ubatch`."""

_SEVERAL_ROWS = 16

_PADDING = 256
"""llama.cpp rounds the context of each sequence up to a multiple of this."""


class BaselineExitedError(EdgeLLMError):
    """The baseline's process has ended."""


def check_baseline() -> None:
    """Raises EdgeLLMError unless llama.cpp is installed."""
    if find_spec("llama_cpp") is None:
        raise EdgeLLMError(f"--against: llama.cpp is not installed; run: {install_command('llama-cpp-python')}")


class Baseline:
    """A model opened in llama.cpp, with the same `prefill` and `decode` as `edgellm.bench.workload.Workload`.

    `repacked` tells whether llama.cpp repacks the weights for this CPU, as it does by default.
    """

    def __init__(self, path: Path, options: BenchOptions, threads: int, repacked: bool) -> None:
        """Start the process and open the model. Raises EdgeLLMError."""
        self.repacked = repacked
        self._name = shown_path(path)
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (closed by `close`)
        self._process = start(self._log, "edgellm.bench.worker")
        cells = options.parallel * _PADDING * -(-options.longest // _PADDING)
        kv_type = NAMED_TYPES[options.kv_type.upper()].number
        where = str(path.absolute())
        params = LlamaCppParams(
            where, cells, kv_type, options.parallel, BATCH, threads, unified=False, repacked=repacked
        )
        try:
            opened = self._ask(open=asdict(params), depth=options.depth, parallel=options.parallel)
        except BaseException:
            self.close()
            raise
        self.version = str(opened["version"])

    def prefill(self, n: int) -> float:
        """Seconds of a prompt of `n` tokens."""
        return float(self._ask(prefill=[n])["seconds"])

    def decode(self, n: int, before: int = 0) -> float:
        """Seconds of `n` steps after `before` others."""
        return float(self._ask(decode=[n, before])["seconds"])

    def close(self) -> None:
        """End the process, also while it computes."""
        self._process.kill()
        self._process.communicate()
        self._log.close()

    def _ask(self, **request: Any) -> dict[str, Any]:
        assert self._process.stdin and self._process.stdout
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            reply = json.loads(self._process.stdout.readline())
        except (OSError, ValueError):
            raise BaselineExitedError(self._message(exit_reason(self._process.wait()))) from None
        if "error" in reply:
            raise EdgeLLMError(self._message(reply["error"]))
        return cast("dict[str, Any]", reply)

    def _message(self, problem: str) -> str:
        log = stderr_tail(self._log)
        return f"{self._name}: llama.cpp {printable(problem, 200)}{f' ({log})' if log else ''}; leave --against out"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self.close()


def open_baseline(path: Path, options: BenchOptions, threads: int) -> Baseline:
    """The baseline at its fastest, warmed up: with repacked weights, unless it crashes with them. Raises EdgeLLMError.

    Some builds of its AMX kernels end the process when they load a tile configuration, first for several rows.
    """
    try:
        return _warmed_up(Baseline(path, options, threads, repacked=True), options)
    except BaselineExitedError:
        return _warmed_up(Baseline(path, options, threads, repacked=False), options)


def _warmed_up(baseline: Baseline, options: BenchOptions) -> Baseline:
    try:
        baseline.prefill(options.prompt_tokens or min(_SEVERAL_ROWS, options.longest - options.depth))
        warm_up(baseline, options)
    except BaseException:
        baseline.close()
        raise
    return baseline
