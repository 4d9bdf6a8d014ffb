"""What each device did in a phase of a benchmark (prefill or decode), if a GPU takes part."""

from typing import Any

from edgellm.engine.device import DeviceStats
from edgellm.engine.native_engine import NativeEngine

_COUNTS = ("dispatches", "submissions", "sent", "received")


class DeviceCounters:
    """Reads the work counters of edgellm's devices before and after each phase; llama.cpp has none."""

    def __init__(self, engine: object) -> None:
        self._engine = engine if isinstance(engine, NativeEngine) and len(engine.devices) > 1 else None
        self._before: list[DeviceStats] = []

    @property
    def on_gpu(self) -> bool:
        """Whether a GPU takes part."""
        return self._engine is not None

    def begin(self) -> None:
        """A phase begins now."""
        self._before = self._engine.device_stats if self._engine else []

    def end(self, tokens: int, passes: int) -> list[dict[str, Any]]:
        """The figures of each device for `tokens` tokens in `passes` passes over the weights; [] without a GPU.

        `ms`, `transfer_ms` and counts are per token; `bandwidth` is bytes of weights per second.
        """
        if not self._engine:
            return []
        pairs = zip(self._engine.devices, self._before, self._engine.device_stats, strict=False)
        return [_figures(device, before, after, tokens, passes) for device, before, after in pairs]


def _figures(
    device: dict[str, Any], before: DeviceStats, after: DeviceStats, tokens: int, passes: int
) -> dict[str, Any]:
    seconds, counts = after.seconds - before.seconds, {}
    if after.dispatches:
        counts = {name: (getattr(after, name) - getattr(before, name)) / tokens for name in _COUNTS}
        counts["transfer_ms"] = 1000 * (after.transfer_s - before.transfer_s) / tokens
    bandwidth = device["bytes"] * passes / seconds if seconds else None
    return {**device, "ms": 1000 * seconds / tokens, "bandwidth": bandwidth, **counts}
