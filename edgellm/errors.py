"""The errors that edgellm raises.

    EdgeLLMError                  an error that a user can act on; its message is one line
    ├── ModelFileError            a model file is missing, unreadable, damaged or contradicts itself
    ├── UnsupportedModelError     the file is valid, but needs a feature that this version does not have
    ├── PromptError               a prompt that cannot be computed, such as one without tokens
    │   ├── ContextOverflowError  a prompt that does not fit the context
    │   └── MissingTemplateError  a message for a model whose file has no chat template
    ├── NoMemoryError             no memory is left for the KV cache or for logits
    ├── IncompleteOutputError     a reply that must conform to a schema or grammar was cut off before it did
    ├── AnswerError               an answer that its class refuses, or that Python does not read
    └── OptionError               an option is unknown or has an impossible value
        └── GuideError            a schema, regex or grammar that no reply can be held to

Each message names the file or option, what is wrong and where, and what to do next. The command line prints it as one
line and exits with 1, or 2 for OptionError.

Problems that do not stop the work are reported as EdgeLLMWarning, through Python's `warnings`.
"""

from collections.abc import Mapping
from typing import Any

_IN_PYTHON = {
    "ctx": "ctx=",
    "max_tokens": "max_tokens=",
    "overflow": 'overflow="drop" or "window"',
    "partial": "partial=True",
    "prompt": "some text",
    "template": "`edgellm generate --template NAME|FILE` takes one, as `template=` does in Python",
}


class EdgeLLMError(Exception):
    """The base class of all errors of edgellm."""


class ModelFileError(EdgeLLMError):
    """A model file is missing, unreadable, damaged, or contradicts itself."""


class UnsupportedModelError(EdgeLLMError):
    """The file is valid, but needs a feature that this version does not have."""


class AdvisedError(Exception):
    """What errors have in common whose advice names settings.

    `advice` has the placeholders `{ctx}`, `{max_tokens}`, `{overflow}`, `{partial}`, `{prompt}` and `{template}`, which
    Python, the command line, the chat and the server replace by their own words for these settings.
    """

    def __init__(self, problem: str, advice: str) -> None:
        super().__init__(problem, advice)
        self.problem, self.advice = problem, advice

    def __str__(self) -> str:
        return self.message_with(_IN_PYTHON)

    def message_with(self, words: Mapping[str, str]) -> str:
        """The message with `words` in place of the placeholders of `advice`."""
        return f"{self.problem}: {self.advice.format_map({**_IN_PYTHON, **words})}"


class PromptError(AdvisedError, EdgeLLMError):
    """A prompt cannot be computed."""


class ContextOverflowError(PromptError):
    """The prompt has more tokens than fit the context; raised before anything is computed."""


class MissingTemplateError(PromptError):
    """A model's file has no chat template, and none is given."""


class NoMemoryError(EdgeLLMError):
    """No memory is left, or allowed, for more tokens in the KV cache, or for logits."""


class IncompleteOutputError(AdvisedError, EdgeLLMError):
    """A reply that must conform to a JSON schema, a regex, choices or a grammar was cut off before it did.

    `completion` is the reply as far as it came, an `edgellm.generate.results.Completion`.
    """

    def __init__(self, problem: str, advice: str, completion: Any) -> None:
        super().__init__(problem, advice)
        self.completion = completion


class AnswerError(EdgeLLMError):
    """An answer is valid against its schema, but it has no value: Python does not read it, or its class refuses it.

    `completion` is the reply without `parsed`, an `edgellm.generate.results.Completion`.
    """

    def __init__(self, message: str, completion: Any = None) -> None:
        super().__init__(message)
        self.completion = completion


class OptionError(EdgeLLMError, TypeError, ValueError):
    """An option is unknown or has an impossible value."""


class GuideError(OptionError):
    """A JSON schema, a regex or a grammar is not valid, or has something that no reply can be held to."""


class EdgeLLMWarning(UserWarning):
    """Something that a user should know, but need not act on."""
