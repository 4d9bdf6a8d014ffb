"""What can go wrong while kernels are compiled and loaded."""

CHANGED = 4
"""Exit code of a compile worker whose sources are not those of its parent."""

CHANGED_MESSAGE = "the files of kquants have changed since this process began, as an upgrade does: start it again"


class KernelError(RuntimeError):
    """A kernel could not be compiled or loaded; the message holds the compiler's last line."""


class SourcesChangedError(RuntimeError):
    """The files of `kquants` have changed since this process began."""
