"""The kinds of GPUs: a folder here each, with a module `backend`. A new one is such a folder, and its name in KINDS."""

from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol, cast

from edgellm.arch.description import Description
from edgellm.engine.device import Device, DeviceFault
from edgellm.engine.offload import Offload, Sizes, Uploading
from edgellm.engine.placement import Placement

KINDS = ("webgpu",)
"""In the order in which they are asked whether there may be a GPU of theirs."""


@dataclass(frozen=True)
class Choice:
    """The blocks that a GPU gets, the bytes that they take there by part, and what a person should know about that.

    `available` bytes of its memory are free, or may be used; None where nobody tells. `kv_limit` is the most bytes that
    KV pages may take there; None where nobody set a limit. If it does not answer for `patience_s` it counts as hung.
    `handle` is for its kind.
    """

    name: str
    placement: Placement
    memory: dict[str, int]
    available: int | None
    notes: list[str]
    patience_s: float
    handle: Any
    kv_limit: int | None = None


class Kind(Protocol):
    """What the engine, the plan and the list of devices ask of a kind of GPU. The middle ones raise DeviceFault."""

    def worth_looking(self, offload: Offload) -> bool:
        """Whether there may be a GPU for what is asked, found out in no time."""

    def listed(self) -> list[dict[str, Any]]:
        """All GPUs: name, kind, backend, features, and the free bytes of memory, or None."""

    def choose(self, model: Description, sizes: Sizes, offload: Offload) -> Choice | None:
        """What goes on which GPU, and why not more; None where nothing is asked for."""

    def open(self, model: Description, sizes: Sizes, choice: Choice, uploading: Uploading) -> Device:
        """A GPU with the blocks that were chosen. `uploading` is called later, too, as a sign of life."""

    def fault(self, name: str, said: str) -> DeviceFault:
        """What happened to the GPU of this name, of which its library said this."""


def kind(name: str) -> Kind:
    """The kind of this name."""
    return cast(Kind, import_module(f"edgellm.engine.{name}.backend"))


def worth_asking(offload: Offload) -> str | None:
    """The name of the first kind that may have a GPU for what is asked; None if nothing is, or none may have."""
    return next((name for name in KINDS if offload.layers != 0 and kind(name).worth_looking(offload)), None)
