"""edgellm: a local LLM for one person on one laptop.

    from edgellm import Model
    with Model.open("model.gguf") as model:
        for token in model.stream("Once upon a time", max_tokens=64):
            print(token.text, end="")

`edgellm.arguments` has the options as typed dicts.

The public names are imported on first use, so that `edgellm --help` is instant.
"""

from importlib import import_module

TYPE_CHECKING = False  # importing typing would take a third of the time until Ctrl-C is handled
if TYPE_CHECKING:
    from converters import convert, imatrix, quantize
    from edgellm.chat import Chat
    from edgellm.errors import (
        AnswerError,
        ContextOverflowError,
        EdgeLLMError,
        EdgeLLMWarning,
        IncompleteOutputError,
        ModelFileError,
        OptionError,
        UnsupportedModelError,
    )
    from edgellm.model import Model
    from edgellm.text.tokenizer import Tokenizer

__version__ = "0.1.0"

_MODULE_OF = {
    "AnswerError": "edgellm.errors",
    "Chat": "edgellm.chat",
    "ContextOverflowError": "edgellm.errors",
    "EdgeLLMError": "edgellm.errors",
    "EdgeLLMWarning": "edgellm.errors",
    "IncompleteOutputError": "edgellm.errors",
    "Model": "edgellm.model",
    "ModelFileError": "edgellm.errors",
    "OptionError": "edgellm.errors",
    "Tokenizer": "edgellm.text.tokenizer",
    "UnsupportedModelError": "edgellm.errors",
    "convert": "converters",
    "imatrix": "converters",
    "quantize": "converters",
}
_CONVERTERS = ("convert", "imatrix", "quantize")
_NEEDED_PACKAGES = {"Model": ("kquants",), **dict.fromkeys(_CONVERTERS, ("converters", "kquants"))}

__all__ = [
    "AnswerError",
    "Chat",
    "ContextOverflowError",
    "EdgeLLMError",
    "EdgeLLMWarning",
    "IncompleteOutputError",
    "Model",
    "ModelFileError",
    "OptionError",
    "Tokenizer",
    "UnsupportedModelError",
    "__version__",
    "convert",
    "imatrix",
    "quantize",
]


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'edgellm' has no attribute {name!r}")
    if name in _NEEDED_PACKAGES:
        from edgellm.system.shadowing import check_not_shadowed

        check_not_shadowed(*_NEEDED_PACKAGES[name])
    return getattr(import_module(_MODULE_OF[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULE_OF})
