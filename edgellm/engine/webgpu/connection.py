"""Devices of wgpu, and the pipelines that were compiled for them: a closed model leaves both for the next one."""

import re
from dataclasses import dataclass, field
from typing import Any

from edgellm.engine.webgpu.adapters import FEATURES, Adapter, silence

_BINDING = re.compile(r"@binding\((\d+)\) var<(uniform|storage, read|storage, read_write)>")
_KINDS = {"uniform": "uniform", "storage, read": "read-only-storage", "storage, read_write": "storage"}
_LIMITS = ("max-storage-buffer-binding-size", "max-buffer-size", "max-compute-workgroup-storage-size")


@dataclass
class Connection:
    """A device of wgpu; `pipelines` has those of shaders by their source, with the layouts of their bindings."""

    device: Any
    pipelines: dict[str, tuple[Any, Any]] = field(default_factory=dict)

    def pipeline(self, source: str) -> tuple[Any, Any]:
        """The pipeline of a shader, compiled once, and the layout of its bindings. Raises what wgpu raises."""
        if source not in self.pipelines:
            self.pipelines[source] = self._compile(source)
        return self.pipelines[source]

    def _compile(self, source: str) -> tuple[Any, Any]:
        entries = [
            {"binding": int(binding), "visibility": "COMPUTE", "buffer": {"type": _KINDS[access]}}
            for binding, access in _BINDING.findall(source)
        ]
        layout = self.device.create_bind_group_layout(entries=entries)
        whole = self.device.create_pipeline_layout(bind_group_layouts=[layout])
        compute = {"module": self.device.create_shader_module(code=source), "entry_point": "main"}
        return self.device.create_compute_pipeline(layout=whole, compute=compute), layout


_Key = tuple[str, tuple[str, ...]]
_idle: dict[_Key, Connection] = {}


def connect(adapter: Adapter, features: tuple[str, ...]) -> Connection:
    """An idle connection to an adapter with these features, or a new one. Raises what wgpu raises."""
    if idle := _idle.pop((adapter.name, features), None):
        return idle
    handle = adapter.handle
    wanted = [theirs for theirs, ours in FEATURES.items() if ours in features and theirs in handle.features]
    limits = {name: handle.limits[name] for name in _LIMITS}
    with silence():
        return Connection(handle.request_device_sync(required_features=wanted, required_limits=limits))


def largest_binding(adapter: Adapter) -> int:
    """Bytes that a shader can see of a buffer."""
    return int(min(adapter.handle.limits[name] for name in _LIMITS[:2]))


def leave(adapter_name: str, features: tuple[str, ...], connection: Connection) -> None:
    """Keep a connection that nobody uses any more; one of a kind is enough."""
    if (adapter_name, features) in _idle:
        connection.device.destroy()
    else:
        _idle[adapter_name, features] = connection
