"""The child process that has a GPU: `python -m edgellm.engine.worker` (see `edgellm.engine.remote`)."""

import traceback
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any

from edgellm.arch import describe
from edgellm.engine.backends import Choice, kind
from edgellm.engine.batch import Batch
from edgellm.engine.device import Device, DeviceFault, Logits, Work
from edgellm.engine.offload import Opening, Uploading, stamp
from edgellm.engine.protocol import Stopped
from edgellm.engine.remote import DONE, RAISED, packed, unpacked
from edgellm.errors import EdgeLLMError, ModelFileError
from edgellm.fmt import printable
from edgellm.gguf import GGUFFile, sigbus
from edgellm.process.serve import serve


class Server:
    """Opens a device, then calls its methods."""

    def __init__(self) -> None:
        self._device: Device | None = None
        self._open: Callable[[Uploading], Device]
        self._check: Callable[[], None]
        self._batch: Batch | None = None
        self._stopped = False
        self._news: Callable[[bytes], None] = lambda payload: None

    def answer(self, request: int, payload: bytes, news: Callable[[bytes], None]) -> tuple[int, bytes]:
        """The reply to a call."""
        name, arguments = unpacked(payload)
        self._news = news
        try:
            started = perf_counter()
            value = getattr(self, f"_{name}")(*arguments)
            work = self._device.work if self._device else Work()
            work.seconds += perf_counter() - started
            return DONE, packed((value, work))
        except (Stopped, EdgeLLMError, DeviceFault) as error:
            return RAISED, packed(error)
        except MemoryError:
            return RAISED, packed(DeviceFault("the process of the GPU got no memory from this machine"))
        except Exception:  # a mistake of ours
            return RAISED, packed(RuntimeError(traceback.format_exc()))

    def stop(self, stop: bool) -> None:
        """Stop what is done now, or next, or forget that; from any thread."""
        self._stopped = stop
        if self._device:
            (self._device.stop if stop else self._device.clear)()

    def _choose(self, name: str, opening: Opening) -> Choice | None:
        sigbus.install()
        try:
            file = GGUFFile.open(opening.path)
        except ModelFileError as error:
            raise DeviceFault(str(error)) from None
        if stamp(file) != opening.stamp:
            raise DeviceFault(f"{printable(opening.path, 400)} is not the file any more that was opened")
        own, model = kind(name), describe(file)
        choice = own.choose(model, opening.sizes, opening.offload)
        if choice:
            self._open, self._check = partial(own.open, model, opening.sizes, choice), file.check
        return choice and replace(choice, handle=None)

    def _upload(self) -> None:
        def uploading(done: int, total: int) -> None:  # the device calls it later, too, and so is not taken for hung
            if self._stopped:
                raise Stopped
            self._news(packed((done, total)))

        self._device = self._open(uploading)
        self._check()

    def _run(self, blocks: range, batch: Batch | None, hidden: Any) -> tuple[Logits | None, Any]:
        self._batch = batch or self._batch
        assert self._device and self._batch, "they come first"
        logits = self._device.run(blocks, self._batch, hidden)
        return logits, hidden if logits is None else None

    def _hold(self, pages: int) -> None:
        assert self._device, "it comes first"
        self._device.hold(pages)

    def _copy(self, source: int, target: int) -> None:
        assert self._device, "it comes first"
        self._device.copy(source, target)


if __name__ == "__main__":
    server = Server()
    serve(server.answer, server.stop)
