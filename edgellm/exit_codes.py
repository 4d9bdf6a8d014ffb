"""Exit codes of the `edgellm` command, besides 0 and those of click."""

FAILED = 1
"""An error that its message explains."""

WRONG_USAGE = 2
"""A wrong option, value or command."""

INTERRUPTED = 130
"""Ctrl-C."""

PIPE_CLOSED = 141
"""stdout is a pipe whose reader has ended."""
