"""References to models, as they are stored with chats: paths, names, and models of servers."""

import os
import re

_OF_SERVER = re.compile(r"(?:https?://|unix:).*#", re.DOTALL)


def is_of_server(model: str) -> bool:
    """Whether this is a reference to a model of a server, as `edgellm.remote.address` makes them."""
    return _OF_SERVER.match(model) is not None


def absolute_model_path(name: str) -> str:
    """The absolute path if `name` is a path, so that it means the same from every folder; else `name`."""
    if name.startswith((".", "~")) or name.lower().endswith(".gguf"):
        return os.path.abspath(os.path.expanduser(name))  # noqa: PTH100, PTH111 (those may raise)
    return name


def is_model_name(model: str) -> bool:
    """Whether this is a model's name and no path: a chat from another program must not choose a file."""
    return absolute_model_path(model) == model and not model.startswith(("/", "\\"))
