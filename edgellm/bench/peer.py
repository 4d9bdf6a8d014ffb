"""llama.cpp as the peer: in a process of its own, asked over pipes, idle whenever it is not asked."""

import json
import tempfile
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

from edgellm.bench.load import warm_up
from edgellm.bench.setting import Setting
from edgellm.errors import EdgeLLMError
from edgellm.fmt import printable
from edgellm.llamacpp.wire import LlamaCppParams
from edgellm.process.spawn import exit_reason, start, stderr_tail
from edgellm.system.optional_packages import install_command
from kquants.ggml import NAMED_TYPES

BATCH = 512
"""Rows of the peer's batches, as llama.cpp's own `n_ubatch`."""

_SEVERAL_ROWS = 16

_PADDING = 256
"""llama.cpp makes the context of each sequence a multiple of this."""


class PeerEndedError(EdgeLLMError):
    """The process of the peer is gone."""


def check_peer() -> None:
    """Raises EdgeLLMError unless llama.cpp is installed."""
    if find_spec("llama_cpp") is None:
        raise EdgeLLMError(f"--against: llama.cpp is not installed; run: {install_command('llama-cpp-python')}")


class Peer:
    """An open model in llama.cpp, with the same `prefill` and `decode` as `edgellm.bench.load.Load`.

    `repacked` tells whether it computes with weights that it has repacked for this CPU, as it does by default.
    """

    def __init__(self, path: Path, setting: Setting, threads: int, repacked: bool) -> None:
        """Start the process and open the model. Raises EdgeLLMError."""
        self.repacked = repacked
        self._name = printable(str(path), 400)
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (closed by `close`)
        self._process = start(self._log, "edgellm.bench.worker")
        cells = setting.parallel * _PADDING * -(-setting.longest // _PADDING)
        kv_type = NAMED_TYPES[setting.kv_type.upper()].number
        where = str(path.absolute())
        slots = setting.parallel
        opening = LlamaCppParams(where, cells, kv_type, slots, BATCH, threads, unified=False, repacked=repacked)
        try:
            opened = self._ask(open=asdict(opening), depth=setting.depth, parallel=setting.parallel)
        except BaseException:
            self.close()
            raise
        self.version = str(opened["version"])

    def prefill(self, n: int) -> float:
        """Seconds to read a prompt of `n` tokens."""
        return float(self._ask(prefill=[n])["seconds"])

    def decode(self, n: int, before: int = 0) -> float:
        """Seconds for `n` steps that follow `before` others."""
        return float(self._ask(decode=[n, before])["seconds"])

    def close(self) -> None:
        """End the process, whatever it does."""
        self._process.kill()
        self._process.communicate()
        self._log.close()

    def _ask(self, **request: Any) -> dict[str, Any]:
        assert self._process.stdin and self._process.stdout
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            reply = json.loads(self._process.stdout.readline())
        except (OSError, ValueError):
            raise PeerEndedError(self._fault(exit_reason(self._process.wait()))) from None
        if "error" in reply:
            raise EdgeLLMError(self._fault(reply["error"]))
        return cast("dict[str, Any]", reply)

    def _fault(self, problem: str) -> str:
        said = stderr_tail(self._log)
        return f"{self._name}: llama.cpp {printable(problem, 200)}{f' ({said})' if said else ''}; leave --against out"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self.close()


def open_peer(path: Path, setting: Setting, threads: int) -> Peer:
    """The peer at its best, warmed up: with repacked weights, unless it crashes with them. Raises EdgeLLMError.

    Some builds of its AMX kernels end the process where they load a tile configuration, first for several rows.
    """
    try:
        return _warm(Peer(path, setting, threads, repacked=True), setting)
    except PeerEndedError:
        return _warm(Peer(path, setting, threads, repacked=False), setting)


def _warm(peer: Peer, setting: Setting) -> Peer:
    try:
        peer.prefill(setting.prompt_tokens or min(_SEVERAL_ROWS, setting.longest - setting.depth))
        warm_up(peer, setting)
    except BaseException:
        peer.close()
        raise
    return peer
