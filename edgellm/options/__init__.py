"""The options that a user can set, for the command line, the chat and Python.

definitions     every option with its default, check, help text and choices
base            what the option sets have in common: checking, unknown names, help
checks          checks of values
aliases         names of options in other programs, and misspelled names
file_defaults   the sampling options that a model file recommends

An options object cannot hold an impossible value: each value is checked when the object is made.
"""

from edgellm.options.base import Options, check_text, validate
from edgellm.options.definitions import ChatOptions, GenerationOptions, LoadOptions, TemplateOptions
from edgellm.options.file_defaults import FILE_KEYS, file_defaults

__all__ = [
    "FILE_KEYS",
    "ChatOptions",
    "GenerationOptions",
    "LoadOptions",
    "Options",
    "TemplateOptions",
    "check_text",
    "file_defaults",
    "validate",
]
