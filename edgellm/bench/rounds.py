"""The rounds of a benchmark: both sides in turn, never at once, so that what disturbs them disturbs both."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import harmonic_mean, median
from time import sleep
from typing import Any

from edgellm.arch import describe
from edgellm.arch.description import Description, tensors_in
from edgellm.bench.cold import PROMPT, cold_prompt, cold_start, peer_cold_start
from edgellm.bench.devices import Watch
from edgellm.bench.limits import Limits
from edgellm.bench.load import OFF_THE_CLOCK, Load, warm_up
from edgellm.bench.peer import Peer, open_peer
from edgellm.bench.setting import OURS, Setting
from edgellm.engine import protocol
from edgellm.fmt import counted
from edgellm.model import Model
from edgellm.perf.bandwidth import memory_reads, weight_products
from edgellm.perf.roofline import Traffic
from kquants import QUANTIZED_FORMATS
from kquants.jit import Progress

COLD_STARTS = 3
"""Rounds that have a cold start; it is steadier than the rest, and slow on large files."""

TURN, TURN_BYTES = 16, 8 << 30
"""Steps of decoding, at most, after which the memory is measured anew, and each side has another turn: memory that
others share gives up to twice as much for a second or two, or for parts of one. Steps of small models, which are
short, are as many as read so many bytes. There is one turn with a GPU, which works for seconds before each."""

_REST_S = 0.05
"""Time in which threads that spin after their work, as OpenMP's do, go to sleep."""

_BUSY_S = 2.0
"""How long a GPU works before it is timed: one that rests runs at a fraction of its clock, and up to two seconds pass
until it is back at the whole of it (an H200 goes from 345 to 1980 MHz)."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class Times:
    """One side in one round, in seconds; None for what was left out."""

    prefill: float | None = None
    decode: float | None = None
    cold_start: float | None = None


@dataclass(frozen=True)
class Turn:
    """Steps of decoding behind others: bytes a second that the memory gave around them, seconds of each side."""

    steps: int
    before: int
    bandwidth: float
    seconds: dict[str, float]


@dataclass(frozen=True)
class Round:
    """What the machine gave in a round (bytes and int8 products a second), and the times of each side, by its name.

    `turns` are what it decoded in, if it did. It was `undisturbed` if the threads that read memory and multiplied
    weights in it had the CPU for themselves.
    """

    bandwidth: float
    int8_peak: float
    undisturbed: bool
    times: dict[str, Times]
    turns: list[Turn] = field(default_factory=list)


@dataclass
class Result:
    """All complete rounds with a number of threads, and what decides how fast they could be.

    `traffic`: the bytes that decoding reads; `products`: the int8 products in the layers for a token of a prompt, 0
    for a model that is not quantized. `devices` has, for each half, the figures of our devices in the last round, if
    there are several (see `edgellm.bench.devices`). `repacked` tells whether the peer computes with weights that it has
    repacked.
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
        limits: Limits,
    ) -> None:
        self._path, self.result, self._sides, self._prompt = path, result, sides, prompt
        self._watch, self._most_rows, self._limits = Watch(engine), engine.max_rows, limits

    def round(self, say: Say) -> None:
        """Measure each side, the other one first than the last time, and what limits it.

        The result has a round more then.
        """
        result, setting, done = self.result, self.result.setting, len(self.result.rounds)
        order = list(self._sides)[:: -1 if done % 2 else 1]

        def begin(what: str) -> None:
            say(f"{counted(result.threads, 'thread')}, round {done + 1} of {setting.rounds}: {what}")
            sleep(_REST_S)

        begin("the machine")
        peak = self._limits.begin()
        prefill = self._prefill(order, begin) if setting.prompt_tokens else {}
        turns = self._decode(order, begin) if setting.tokens else []
        cold = {name: self._cold(name, begin) for name in order} if done < COLD_STARTS else {}
        bandwidth = median([turn.bandwidth for turn in turns] or [harmonic_mean(self._read_memory(begin))])
        decode = {name: sum(turn.seconds[name] for turn in turns) or None for name in order}
        times = {name: Times(prefill.get(name), decode[name], cold.get(name)) for name in order}
        result.rounds.append(Round(bandwidth, peak, self._limits.end(), times, turns))

    def _read_memory(self, begin: Say) -> list[float]:
        begin("the machine")
        return self._limits.reads()

    def _prefill(self, order: list[str], begin: Say) -> dict[str, float]:
        """Seconds of each side."""
        n = self.result.setting.prompt_tokens
        seconds = self._one_turn("prefill", (n,), order, begin)
        self.result.devices["prefill"] = self._watch.end(n, -(-n // self._most_rows))
        return seconds

    def _decode(self, order: list[str], begin: Say) -> list[Turn]:
        """All turns."""
        n, turns = self.result.setting.tokens, list[Turn]()
        most = n if self._watch.on_gpu else max(TURN, TURN_BYTES // self.result.traffic.weights)
        earlier = self._read_memory(begin)
        for steps, before in _turns(n, most):
            seconds, found = self._one_turn("decode", (steps, before), order, begin), self._read_memory(begin)
            turns.append(Turn(steps, before, harmonic_mean(earlier + found), seconds))
            earlier = found
        passes = n + OFF_THE_CLOCK
        self.result.devices["decode"] = self._watch.end(passes * self.result.setting.parallel, passes)
        return turns

    def _one_turn(self, half: str, amounts: tuple[int, ...], order: list[str], begin: Say) -> dict[str, float]:
        seconds = {}
        for name in order:
            side = self._sides[name]
            begin(name)
            if self._watch.on_gpu and isinstance(side, Load):
                side.keep_busy(_BUSY_S)
                self._watch.begin()  # there is one turn
            seconds[name] = getattr(side, half)(*amounts)
        return seconds

    def _cold(self, name: str, begin: Say) -> float:
        side, setting, threads = self._sides[name], self.result.setting, self.result.threads
        begin(name)
        if isinstance(side, Peer):
            return peer_cold_start(self._path, setting, threads, side.repacked)
        return cold_start(self._path, setting, threads, self._prompt)


def _turns(steps: int, most: int) -> list[tuple[int, int]]:
    """How many steps there are in each turn, and how many before it."""
    count = -(-steps // most)
    ends = [steps * i // count for i in range(1, count + 1)]
    return [(end - before, before) for before, end in pairwise([0, *ends])]


@contextmanager
def opened(path: Path, setting: Setting, threads: int, compiling: Progress, say: Say) -> Iterator[Bench]:
    """A benchmark that is ready for its rounds.

    Raises EdgeLLMError in its kinds.
    """
    with ExitStack() as stack:
        options: dict[str, Any] = {"threads": threads, "kv_type": setting.kv_type, "gpu_layers": setting.gpu_layers}
        options["kv_memory"] = setting.kv_memory
        model = stack.enter_context(Model.open(path, progress=compiling, **options))
        described = describe(model.file)
        traffic = Traffic.of(described, setting.kv_type)
        result = Result(setting, threads, traffic, _int8_products(described))
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
        multiply = stack.enter_context(weight_products(threads, traffic.matrices, progress=compiling))
        yield Bench(path, result, sides, prompt, model.engine, Limits(threads, read, multiply))


def _int8_products(model: Description) -> int:
    """In the layers, for a token whose logits nobody wants: the last layer then ends with queries, keys and values."""
    *layers, last = model.layers
    tensors = tensors_in([*layers, last.mixer.q, last.mixer.k, last.mixer.v])
    return sum(t.size for t in tensors if t.type.name in QUANTIZED_FORMATS)
