"""The options that a user can set, for the command line, the chat and Python.

definitions     every option with its default, check, help text and choices
base            what the option sets have in common: checking, unknown names, help
checks          checks of values
aliases         names of options in other programs, and misspelled names
gguf_defaults   the sampling options that a model file recommends

An options object cannot hold an impossible value: each value is checked when the object is made.

The public names load on first use: `edgellm --help` needs only `aliases`.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgellm.options.base import Options, check_text, validate
    from edgellm.options.definitions import MAX_DRAFT, ChatOptions, GenerationOptions, LoadOptions, TemplateOptions
    from edgellm.options.gguf_defaults import FILE_KEYS, file_defaults

_MODULE_OF = {
    "FILE_KEYS": "edgellm.options.gguf_defaults",
    "MAX_DRAFT": "edgellm.options.definitions",
    "ChatOptions": "edgellm.options.definitions",
    "GenerationOptions": "edgellm.options.definitions",
    "LoadOptions": "edgellm.options.definitions",
    "Options": "edgellm.options.base",
    "TemplateOptions": "edgellm.options.definitions",
    "check_text": "edgellm.options.base",
    "file_defaults": "edgellm.options.gguf_defaults",
    "validate": "edgellm.options.base",
}

__all__ = [
    "FILE_KEYS",
    "MAX_DRAFT",
    "ChatOptions",
    "GenerationOptions",
    "LoadOptions",
    "Options",
    "TemplateOptions",
    "check_text",
    "file_defaults",
    "validate",
]


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'edgellm.options' has no attribute {name!r}")
    return getattr(import_module(_MODULE_OF[name]), name)
