"""From what is asked for to a GPU with its blocks, if there is one."""

from typing import TYPE_CHECKING

from edgellm.engine.backends import Choice, kind, worth_asking
from edgellm.engine.device import DeviceFault
from edgellm.engine.offload import Opening, Uploading
from edgellm.engine.placement import GPU, fewer_layers

if TYPE_CHECKING:
    from edgellm.engine.remote import RemoteDevice


def open_gpu(opening: Opening, uploading: Uploading) -> "tuple[RemoteDevice, Choice] | None":
    """A GPU that has the blocks that were chosen; None if that is nothing. Raises DeviceFault where it cannot be."""
    name = worth_asking(opening.offload)
    if name is None:
        return None
    from edgellm.engine.remote import RemoteDevice  # with what it takes to start a process: most never do

    device = RemoteDevice(kind(name).fault)
    try:
        if choice := _chosen(device, name, opening):
            _upload(device, choice, uploading)
            return device, choice
    except BaseException:
        device.close()
        raise
    device.close()
    return None


def _chosen(device: "RemoteDevice", name: str, opening: Opening) -> Choice | None:
    """What goes there; None if that is nothing and nobody asked for a certain GPU or number of layers."""
    choice, offload = device.choose(name, opening), opening.offload
    if choice and offload.layers == "auto" and offload.gpu is None:
        choice.notes.clear()
    if choice and choice.notes and (offload.strict or GPU not in choice.placement):
        raise DeviceFault("; ".join(choice.notes))
    return choice if choice and GPU in choice.placement else None


def _upload(device: "RemoteDevice", choice: Choice, uploading: Uploading) -> None:
    try:
        device.upload(uploading)
    except DeviceFault as fault:
        if fault.out_of_memory:
            fault.fewer = fewer_layers(choice.placement)
        raise
