"""llama.cpp as the peer: in a process of its own, asked over pipes, idle whenever it is not asked."""

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from edgellm.errors import EdgeLLMError
from edgellm.gguf.printable import printable
from edgellm.llamacpp.wire import Opening
from kquants.ggml import GGML_TYPES

BATCH = 512
"""Rows of the peer's batches: llama.cpp's own default for `n_ubatch`, and the faster for it."""

_PADDING = 256
"""llama.cpp makes the context of each sequence a multiple of this."""


def check_peer() -> None:
    """Raises EdgeLLMError unless llama.cpp is installed."""
    if find_spec("llama_cpp") is None:
        raise EdgeLLMError('--against: llama.cpp is not installed; run: pip install "edgellm[llama-cpp]"')


class Peer:
    """An open model in llama.cpp, with the same `prefill` and `decode` as `edgellm.bench.load.Load`."""

    def __init__(self, path: Path, *, threads: int, depth: int, parallel: int, longest: int, kv_type: str) -> None:
        """Open it for `parallel` sequences of up to `longest` tokens. Raises EdgeLLMError."""
        self._name = printable(str(path), 400)
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (closed by `close`)
        self._process = _start(self._log)
        kv_number = next(kind.number for kind in GGML_TYPES.values() if kind.name == kv_type.upper())
        cells = parallel * _PADDING * -(-longest // _PADDING)
        opening = Opening(str(path.absolute()), cells, kv_number, parallel, BATCH, threads, unified=False)
        try:
            self._ask(open=asdict(opening), depth=depth, parallel=parallel)
        except BaseException:
            self.close()
            raise

    def prefill(self, n: int) -> float:
        """Seconds to read a prompt of `n` tokens."""
        return float(self._ask(prefill=n)["seconds"])

    def decode(self, n: int) -> float:
        """Seconds for `n` steps."""
        return float(self._ask(decode=n)["seconds"])

    def close(self) -> None:
        """End the process, whatever it does."""
        self._process.kill()
        self._process.communicate()
        self._log.close()

    def _ask(self, **request: Any) -> dict[str, Any]:
        assert self._process.stdin and self._process.stdout
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            reply: dict[str, Any] = json.loads(self._process.stdout.readline())
        except (OSError, ValueError):
            raise self._fault(f"ended with exit code {self._process.wait()}") from None
        if "error" in reply:
            raise self._fault(reply["error"])
        return reply

    def _fault(self, problem: str) -> EdgeLLMError:
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").split("\n")
        said = printable("; ".join(line.strip() for line in lines if line.strip())[-300:], 300)
        reason = f"{printable(problem, 200)}{f' ({said})' if said else ''}"
        return EdgeLLMError(f"{self._name}: llama.cpp {reason}; leave --against out")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self.close()


def _start(log: Any) -> "subprocess.Popen[str]":
    # -P: or else Python would look for modules in the user's current folder first, whatever lies there.
    command = [sys.executable, "-P", "-m", "edgellm.bench.worker"]
    paths = os.pathsep.join([str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])])
    # Without the last, ggml has a debugger look at the process that it is about to abort.
    env = {**os.environ, "PYTHONPATH": paths, "GGML_NO_BACKTRACE": "1"}
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=env, encoding="utf-8"
    )
