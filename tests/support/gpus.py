"""A GPU for tests: whatever adapter there is, on machines without a GPU Mesa's llvmpipe."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgellm.arch import describe
from edgellm.engine.backends import OffloadPlan
from edgellm.engine.device import DeviceFault
from edgellm.engine.native_engine import NativeEngine
from edgellm.engine.offload import OffloadRequest, OffloadTask, UploadProgress
from edgellm.engine.protocol import Segment
from edgellm.engine.webgpu.adapters import Adapter, adapters
from edgellm.engine.webgpu.device import GPUDevice
from edgellm.engine.webgpu.offload_plan import plan_offload
from edgellm.engine.webgpu.open_device import open_device
from edgellm.gguf import GGUFFile
from edgellm.system.folders import cache_folder

TINY: dict[str, Any] = {"width": 64, "heads": 4, "kv_heads": 2, "head_dim": 16, "ffn": 96, "layers": 2, "types": "F32"}
"""A model that llvmpipe runs in no time."""


def adapter() -> Adapter:
    """The first adapter; skips the test where there is none."""
    try:
        found = adapters()
    except DeviceFault as fault:
        pytest.skip(f"needs an adapter: {fault}")
    if not found:
        pytest.skip("needs an adapter, such as that of mesa-vulkan-drivers")
    return found[0]


def some_ids(n: int, seed: int = 0) -> list[int]:
    """Tokens of the models that `make_gguf` writes."""
    return [1, *map(int, np.random.default_rng(seed).integers(3, 320, n - 1))]


def engine_on(file: GGUFFile, layers: int | str, **options: Any) -> NativeEngine:
    """An engine with `layers` layers on the GPU, which has to work; skips the test where there is no adapter."""
    if layers != 0:
        adapter()
    given = {"threads": 2, "ctx": 512, "kv_type": "f32", "cache": cache_folder()} | options
    offload = {"offload": OffloadRequest(layers, strict=True)}
    return NativeEngine(file, **(offload | given))


def logits(engine: NativeEngine, ids: list[int], step: int = 256) -> NDArray[np.float32]:
    """The logits of all tokens of a new sequence, computed `step` at a time."""
    sequence, parts = engine.new_sequence(), []
    for start in range(0, len(ids), step):
        part = ids[start : start + step]
        parts.append(engine.forward([Segment(sequence, part, range(len(part)))]))
    return np.concatenate(parts)


class Here:
    """A DeviceProxy that has no process of its own, so that tests can look into its `device`."""

    device: GPUDevice

    def __init__(self, fault: object) -> None: ...

    def plan_offload(self, backend: str, task: OffloadTask) -> OffloadPlan | None:
        self._open = partial(open_device, describe(GGUFFile.open(task.path)), task.limits)
        self._plan = plan_offload(self._open.args[0], task.limits, task.request)
        return self._plan

    def upload(self, progress: UploadProgress) -> None:
        assert self._plan
        self.device = self._open(self._plan, progress)

    def close(self) -> None:
        if "device" in self.__dict__:
            self.device.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["device"], name)


def gpu_of(engine: NativeEngine) -> GPUDevice:
    """The GPU of an engine, where it is in this process."""
    assert isinstance(engine._runner.gpu, Here)
    return engine._runner.gpu.device


def opened(path: Any, layers: int | str, **options: Any) -> Iterator[NativeEngine]:
    """An engine on a file, for `contextmanager`."""
    with GGUFFile.open(path) as file:
        engine = engine_on(file, layers, **options)
        try:
            yield engine
        finally:
            engine.close()
