"""Exit codes of the `edgellm` command, but for 0 and what click gives."""

FAILED = 1
"""An error that its message explains."""

WRONG_USAGE = 2
"""A wrong option, value or command."""

INTERRUPTED = 130
"""Ctrl-C."""

PIPE_CLOSED = 141
"""The program that reads stdout has ended."""
