"""Keeping parts of matrices in memory that are stored by columns, of which a few rows are scattered over all of it."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from threading import Lock
from typing import Generic, TypeVar

Panel = TypeVar("Panel")

PANEL_BYTES = 32 << 20
"""The size of a panel, as many rows as fit: large enough for long reads, small beside the model."""

KEPT_BYTES = 4 * PANEL_BYTES
"""The most that panels take together, but for one that is larger. Threads read chunks of neighbouring tensors."""


@dataclass
class _Kept(Generic[Panel]):
    nbytes: int
    lock: Lock = field(default_factory=Lock)
    panel: Panel | None = None


class PanelCache(Generic[Panel]):
    """The panels read last, up to `most` bytes. Thread-safe: one thread reads a panel, the others wait for it."""

    def __init__(self, most: int = KEPT_BYTES) -> None:
        self._most = most
        self._kept: dict[Hashable, _Kept[Panel]] = {}
        self._lock = Lock()

    def get(self, key: Hashable, nbytes: int, read: Callable[[], Panel]) -> Panel:
        """The panel `key` of `nbytes` bytes, read by `read` unless it is kept."""
        with self._lock:
            if key not in self._kept:
                self._drop(nbytes)
                self._kept[key] = _Kept(nbytes)
            kept = self._kept[key]
        with kept.lock:
            if kept.panel is None:
                kept.panel = read()
            return kept.panel

    def _drop(self, nbytes: int) -> None:
        """Drop the oldest panels until `nbytes` more fit."""
        held = sum(kept.nbytes for kept in self._kept.values())
        while self._kept and held + nbytes > self._most:
            held -= self._kept.pop(next(iter(self._kept))).nbytes
