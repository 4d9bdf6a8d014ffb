"""The rounds of a benchmark: both sides in turn, never at once, so that what disturbs them disturbs both."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median
from time import sleep
from typing import Any

from edgellm.arch import describe
from edgellm.bandwidth import Traffic, int8_peak, keep, memory_reads
from edgellm.bench.cold import PROMPT, cold_prompt, cold_start, peer_cold_start
from edgellm.bench.devices import Watch
from edgellm.bench.load import Load, warm_up
from edgellm.bench.peer import Peer, open_peer
from edgellm.bench.setting import OURS, Setting
from edgellm.engine import protocol
from edgellm.errors import ContextOverflowError
from edgellm.gguf import GGUFFile
from edgellm.gguf.printable import counted, printable
from edgellm.model import Model
from kquants import QUANTIZED_FORMATS
from kquants.jit import Progress

COLD_STARTS = 3
"""Rounds that have a cold start; it is steadier than the rest, and slow on large files."""

_READS = 5
"""Reads of the memory in a round; the best of them is its bandwidth."""

_ENOUGH = 3 * _READS
"""Reads, in rounds that lie seconds apart, that tell what the memory usually gives."""

TURN = 16
"""Steps of decoding, at most, after which the other side has its turn: memory that others share gives up to twice as
much for a second or two."""

_REST_S = 0.05
"""Time in which threads that spin after their work, as OpenMP's do, go to sleep."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class Times:
    """One side in one round, in seconds; None for what was left out."""

    prefill: float | None = None
    decode: float | None = None
    cold_start: float | None = None


@dataclass(frozen=True)
class Round:
    """What the machine gave in a round (bytes and int8 products a second), and the times of each side, by its name."""

    bandwidth: float
    int8_peak: float
    times: dict[str, Times]


@dataclass
class Result:
    """All complete rounds with a number of threads, and what decides how fast they could be.

    `traffic`: the bytes that decoding reads; `products`: the int8 products in the layers for a token, 0 for a model
    that is not quantized. `devices` has, for each half, the figures of our devices in the last round, if there are
    several (see `edgellm.bench.devices`). `repacked` tells whether the peer computes with weights that it has repacked.
    """

    setting: Setting
    threads: int
    traffic: Traffic
    products: int
    peer_version: str | None = None
    repacked: bool | None = None
    rounds: list[Round] = field(default_factory=list)
    devices: dict[str, list[dict[str, Any]]] = field(default_factory=dict)


class Bench:
    """Both sides, open and warm."""

    def __init__(
        self,
        path: Path,
        result: Result,
        sides: dict[str, Load | Peer],
        prompt: str,
        engine: protocol.Engine,
        read: Callable[[], float],
    ) -> None:
        self._path, self.result, self._sides, self._prompt = path, result, sides, prompt
        self._watch, self._most_rows = Watch(engine), engine.max_rows
        self._read, self._speeds = read, list[float]()

    def round(self, say: Say) -> None:
        """Measure each side, the other one first than the last time, and before each half what limits it.

        The result has a round more then.
        """
        result, setting, done = self.result, self.result.setting, len(self.result.rounds)
        order = list(self._sides)[:: -1 if done % 2 else 1]

        def begin(what: str) -> None:
            say(f"{counted(result.threads, 'thread')}, round {done + 1} of {setting.rounds}: {what}")
            sleep(_REST_S)

        begin("the machine")
        peak = int8_peak(result.threads)
        prefill = self._half("prefill", [(setting.prompt_tokens,)] if setting.prompt_tokens else [], order, begin)
        begin("the machine")
        bandwidth = self._bandwidth()
        decode = self._half("decode", _turns(setting.tokens, len(order)), order, begin)
        cold = {name: self._cold(name, begin) for name in order} if done < COLD_STARTS else {}
        times = {name: Times(prefill.get(name), decode.get(name), cold.get(name)) for name in order}
        result.rounds.append(Round(bandwidth, peak, times))

    def _bandwidth(self) -> float:
        # In each round, as others may take a part of it at any time, or leave more of it for a moment. That is what the
        # decoding that follows could have; what to expect at other times is what most of them found.
        found = [self._read() for _ in range(_READS)]
        self._speeds += found
        if len(self._speeds) >= _ENOUGH:
            keep(self.result.threads, median(self._speeds))
        return max(found)

    def _half(self, half: str, turns: list[tuple[int, ...]], order: list[str], begin: Say) -> dict[str, float]:
        """Seconds of each side for a half, turn by turn, and what our devices tell of it; {} without turns."""
        seconds: dict[str, float] = {}
        self._watch.begin()
        for turn in turns:
            for name in order:
                begin(name)
                seconds[name] = seconds.get(name, 0.0) + getattr(self._sides[name], half)(*turn)
        if turns:
            n = sum(turn[0] for turn in turns)
            tokens = n * self.result.setting.parallel if half == "decode" else n
            passes = n if half == "decode" else -(-n // self._most_rows)
            self.result.devices[half] = self._watch.end(tokens, passes)
        return seconds

    def _cold(self, name: str, begin: Say) -> float:
        side, setting, threads = self._sides[name], self.result.setting, self.result.threads
        begin(name)
        if isinstance(side, Peer):
            return peer_cold_start(self._path, setting, threads, side.repacked)
        return cold_start(self._path, setting, threads, self._prompt)


def _turns(steps: int, sides: int) -> list[tuple[int, ...]]:
    """How many steps there are in each turn, and how many before it; a side alone does all in one."""
    count = -(-steps // TURN) if sides > 1 else min(1, steps)
    ends = [steps * i // count for i in range(1, count + 1)]
    return [(end - before, before) for before, end in pairwise([0, *ends])]


@contextmanager
def opened(path: Path, setting: Setting, threads: int, compiling: Progress, say: Say) -> Iterator[Bench]:
    """A benchmark that is ready for its rounds; what was measured of the machine is kept.

    Raises EdgeLLMError in its kinds; ContextOverflowError for more tokens than the model's context holds.
    """
    with ExitStack() as stack:
        options: dict[str, Any] = {"threads": threads, "kv_type": setting.kv_type, "gpu_layers": setting.gpu_layers}
        model = stack.enter_context(Model.open(path, progress=compiling, **options))
        _check_fits(model, setting)
        traffic = Traffic.of(describe(model.file), setting.kv_type)
        result = Result(setting, threads, traffic, _int8_products(model.file))
        say(f"{counted(threads, 'thread')}: warming up")
        ours = Load(model.engine, setting.depth, setting.parallel)
        warm_up(ours, setting)
        sides: dict[str, Load | Peer] = {OURS: ours}
        if setting.against:
            say(f"{counted(threads, 'thread')}: opening {setting.against}")
            peer = sides[setting.against] = stack.enter_context(open_peer(path, setting, threads))
            result.peer_version, result.repacked = peer.version, peer.repacked
        prompt = cold_prompt(model.tokenizer, min(PROMPT, model.ctx - 1))
        read = stack.enter_context(memory_reads(threads, progress=compiling))
        yield Bench(path, result, sides, prompt, model.engine, read)


def _check_fits(model: Model, setting: Setting) -> None:
    if setting.longest > model.ctx:
        raise ContextOverflowError(
            f"{printable(str(model.file.path), 400)}: {setting.longest} tokens (-d and the larger of -p and -n) are "
            f"more than its context of {model.ctx}; give less"
        )


def _int8_products(file: GGUFFile) -> int:
    layers = [t for name, t in file.tensors.items() if name.startswith("blk.")]
    return sum(t.size for t in layers if t.type.name in QUANTIZED_FORMATS)
