"""Errors as one line for the user."""

import logging

from edgellm.errors import EdgeLLMError, GuideError, IncompleteOutputError, PromptError
from edgellm.system.os_errors import explain_error

_SETTING_NAMES = {"ctx": "/set ctx", "overflow": "/set overflow drop or window", "prompt": "some text"}
"""The chat's commands for the options that a PromptError names."""

_INCOMPLETE = (
    "the reply was cut off before it conforms to the schema: a larger /set max_tokens or /set ctx gives it room"
)


def error_line(error: Exception) -> str:
    """One line about an error. An EdgeLLMError says itself what to do; any other error is logged in full."""
    if isinstance(error, PromptError):
        return error.message_with(_SETTING_NAMES)
    if isinstance(error, IncompleteOutputError):
        return _INCOMPLETE
    if isinstance(error, GuideError):
        return str(error).replace("option json_schema", "/schema", 1)
    if isinstance(error, EdgeLLMError):
        return str(error)
    logging.getLogger(__name__).error("unexpected", exc_info=error)
    if explanation := explain_error(error):
        return explanation
    return f"something unexpected went wrong ({type(error).__name__}: {' '.join(str(error).split())}); see the log"
