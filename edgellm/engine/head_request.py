"""A head that an engine is asked to open beside its model."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from edgellm.arch.head import Head
from edgellm.engine.budget import NO_LIMIT, KVBudget
from edgellm.engine.head_engine import HeadEngine
from edgellm.engine.host_kv_pages import HostKVPages
from edgellm.engine.outputs import OutputSettings
from edgellm.engine.threadpool import ThreadPool
from edgellm.errors import EdgeLLMError, NoMemoryError
from kquants.jit import Progress

ON_GPU = "a head drafts only where the CPU computes all layers; give --gpu-layers 0 to use it"
"""Why a head does not draft beside a GPU: a step there has other bits with drafts than without."""


@dataclass(frozen=True)
class HeadRequest:
    """A head that drafts for a model: its keys and values stay within `budget`.

    `leave_out` is called with the reason where the head does not draft, as layers are on a GPU or an error of class
    `tolerated` came; it may give another budget for the model. Other errors end the opening. `check` raises if the file
    of its own, where it has one, was cut short.
    """

    head: Head
    leave_out: Callable[[str], KVBudget | None]
    budget: KVBudget = NO_LIMIT
    check: Callable[[], None] = lambda: None
    tolerated: type[EdgeLLMError] = NoMemoryError

    def outputs(self, outputs: OutputSettings) -> OutputSettings:
        """What the model gives, with the features that the head reads."""
        taps = outputs.taps | frozenset(self.head.taps)
        return replace(outputs, taps=taps, all_hidden=outputs.all_hidden or not self.head.taps)

    def open(
        self,
        *,
        kv_type: str,
        ctx: int,
        pool: ThreadPool,
        pages: HostKVPages,
        cache: Path,
        check: Callable[[], None],
        progress: Progress | None,
    ) -> HeadEngine:
        """The engine of the head; `check` raises if the file of the model was cut short. Raises EdgeLLMError."""

        def check_both() -> None:
            check()
            self.check()

        return HeadEngine(
            self.head,
            kv_type=kv_type,
            ctx=ctx,
            pool=pool,
            pages=pages,
            cache=cache,
            check=check_both,
            progress=progress,
            budget=self.budget,
        )
