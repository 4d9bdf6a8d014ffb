"""Every error that edgellm raises on purpose.

    EdgeLLMError                  something a person can act on; its message is one line
    ├── ModelFileError            a model file is missing, damaged or contradicts itself
    ├── UnsupportedModelError     the file is whole, but asks for what this version cannot do
    ├── PromptError               a prompt that cannot be computed, such as one without any token
    │   └── ContextOverflowError  the prompt does not fit the context
    ├── NoMemoryError             there is no memory for more of the KV cache, or for logits
    └── OptionError               an option is unknown or has an impossible value

Each message names the file or option, what is wrong and where, and what to do next. The command line
prints it as one line and exits with 1 (2 for OptionError); nothing else is ever shown to a user.

What does not keep anything from working is an EdgeLLMWarning, through Python's `warnings`.
"""

from collections.abc import Mapping

_IN_PYTHON = {"ctx": "ctx=", "overflow": 'overflow="drop" or "window"', "prompt": "some text"}


class EdgeLLMError(Exception):
    """The base of all errors that edgellm raises on purpose."""


class ModelFileError(EdgeLLMError):
    """A model file is missing, unreadable, damaged, or contradicts itself."""


class UnsupportedModelError(EdgeLLMError):
    """The file is whole, but needs something that this version does not have."""


class PromptError(EdgeLLMError):
    """A prompt cannot be computed.

    `advice` names what can be set as `{ctx}`, `{overflow}` and `{prompt}`, since each front has its own words for them.
    """

    def __init__(self, problem: str, advice: str) -> None:
        super().__init__(problem, advice)
        self.problem, self.advice = problem, advice

    def __str__(self) -> str:
        return self.said(_IN_PYTHON)

    def said(self, words: Mapping[str, str]) -> str:
        """The message in the words of a front."""
        return f"{self.problem}: {self.advice.format_map(words)}"


class ContextOverflowError(PromptError):
    """The prompt has more tokens than the context holds; raised before anything is computed."""


class NoMemoryError(EdgeLLMError):
    """There is no memory, or none that may be taken, for more tokens in the KV cache, or for logits."""


class OptionError(EdgeLLMError, TypeError, ValueError):
    """An option is unknown or has an impossible value."""


class EdgeLLMWarning(UserWarning):
    """Something a person should know, but need not act on."""
