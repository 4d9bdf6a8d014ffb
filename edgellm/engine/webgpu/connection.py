"""A device of wgpu and its compiled pipelines."""

import re
from typing import Any

from edgellm.engine.webgpu.adapters import FEATURES, Adapter, silence

_BINDING = re.compile(r"@binding\((\d+)\) var<(uniform|storage, read|storage, read_write)>")
_BINDING_TYPES = {"uniform": "uniform", "storage, read": "read-only-storage", "storage, read_write": "storage"}
_LIMITS = ("max-storage-buffer-binding-size", "max-buffer-size", "max-compute-workgroup-storage-size")


class Connection:
    """A device of an adapter, with these features. Raises the errors of wgpu."""

    def __init__(self, adapter: Adapter, features: tuple[str, ...]) -> None:
        wgpu_adapter = adapter.wgpu_adapter
        wanted = [theirs for theirs, ours in FEATURES.items() if ours in features and theirs in wgpu_adapter.features]
        limits = {name: wgpu_adapter.limits[name] for name in _LIMITS}
        with silence():
            self.device: Any = wgpu_adapter.request_device_sync(required_features=wanted, required_limits=limits)
        self._pipelines: dict[str, tuple[Any, Any]] = {}

    def pipeline(self, source: str) -> tuple[Any, Any]:
        """The pipeline of a shader, compiled once, and the layout of its bindings. Raises the errors of wgpu."""
        if source not in self._pipelines:
            self._pipelines[source] = self._compile(source)
        return self._pipelines[source]

    def _compile(self, source: str) -> tuple[Any, Any]:
        entries = [
            {"binding": int(binding), "visibility": "COMPUTE", "buffer": {"type": _BINDING_TYPES[access]}}
            for binding, access in _BINDING.findall(source)
        ]
        layout = self.device.create_bind_group_layout(entries=entries)
        whole = self.device.create_pipeline_layout(bind_group_layouts=[layout])
        compute = {"module": self.device.create_shader_module(code=source), "entry_point": "main"}
        return self.device.create_compute_pipeline(layout=whole, compute=compute), layout


def largest_binding(adapter: Adapter) -> int:
    """Bytes of a buffer that a shader can access."""
    return int(min(adapter.wgpu_adapter.limits[name] for name in _LIMITS[:2]))
