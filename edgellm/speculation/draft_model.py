"""A draft model that is opened in the background, so that the model that it drafts for need not wait for it."""

from collections.abc import Callable
from threading import Thread

from edgellm.engine.budget import KVBudget
from edgellm.engine.native_engine import NativeEngine
from edgellm.engine.threadpool import ThreadPool
from edgellm.errors import EdgeLLMError
from edgellm.speculation.computed_source import warn_aside
from edgellm.speculation.draft_file import DraftFile
from edgellm.system.folders import cache_folder


class DraftModel:
    """Opens the engine of a draft model in a thread, and gives it to `attach` from there.

    The engine computes on the threads of `pool`, with keys and values of `kv_type` within `budget`, for texts of up to
    `ctx` tokens, or what it was made for. If it cannot be opened, a warning says why.
    """

    def __init__(
        self,
        draft: DraftFile,
        pool: ThreadPool,
        ctx: int,
        kv_type: str,
        budget: KVBudget,
        attach: Callable[[NativeEngine], object],
    ) -> None:
        # Not the draft itself: a file is unmapped only if no tensor of its description is left.
        self._file, self._name, self._pool, self._budget = draft.file, draft.name, pool, budget
        self._ctx, self._kv_type = min(ctx, draft.model.context_length), kv_type
        self._engine: NativeEngine | None = None
        self._closing = False
        self._thread = Thread(target=self._open, args=(attach,), name="edgellm draft model", daemon=True)
        self._thread.start()

    def _open(self, attach: Callable[[NativeEngine], object]) -> None:
        try:
            self._engine = NativeEngine(
                self._file,
                threads=self._pool.count,
                ctx=self._ctx,
                kv_type=self._kv_type,
                cache=cache_folder(),
                budget=self._budget,
                pool=self._pool,
                progress=self._check_closing,
            )
            attach(self._engine)
        except (EdgeLLMError, MemoryError) as error:
            if self._closing:
                return
            why = str(error).removeprefix(f"{self._name}: ") or "no memory"
            text = f"the draft model {self._name} cannot be used: {why}; replies go on without its drafts"
            warn_aside(text)

    def _check_closing(self, done: int, total: int) -> None:
        """Raise EdgeLLMError where kernels are compiled, which may take a minute, for a model that is closed."""
        if self._closing:
            raise EdgeLLMError("the model was closed")

    def wait(self) -> None:
        """Wait until it is open, or cannot be opened."""
        self._thread.join()

    def close(self) -> None:
        """End the opening, and free the memory. Nothing is computed on the threads any more."""
        self._closing = True
        self.wait()
        if self._engine:
            self._engine.close()
        self._file.close()
