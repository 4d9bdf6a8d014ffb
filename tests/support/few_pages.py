"""Models whose memory is short, so that requests are preempted."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from edgellm import Model
from edgellm.engine.host_kv_pages import HostKVPages
from edgellm.errors import NoMemoryError
from edgellm.generate.batching.computation import Computation


@contextmanager
def opened_with_few_pages(
    path: Path, most: int, seen: Callable[[], int] = lambda: 0, **options: Any
) -> Iterator[tuple[Model, list[int]]]:
    """A model that has `most` pages in each KV group, and what `seen` says at each preemption.

    Recurrent states and engines that draft have all pages that they ask for.
    """
    preempt, preempted, ensure = Computation.preempt, list[int](), HostKVPages.ensure_pages
    model: Model | None = None

    def recorded(computation: Computation) -> None:
        preempted.append(seen())
        preempt(computation)

    def limited(store: HostKVPages, group: int, pages: int) -> None:
        is_own = model is not None and store is model.engine._runner.cpu.pages  # type: ignore[attr-defined]
        if is_own and group < len(store.page_bytes) - 1 and pages > most:
            raise NoMemoryError("full")
        ensure(store, group, pages)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Computation, "preempt", recorded)
        patch.setattr("edgellm.engine.host_kv_pages.CHUNK", 0)
        patch.setattr("edgellm.engine.host_kv_pages.HUGE", 0)
        patch.setattr(HostKVPages, "ensure_pages", limited)
        with Model.open(path, threads=1, **options) as model:
            yield model, preempted
