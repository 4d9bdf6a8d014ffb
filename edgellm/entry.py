"""The entry point of the `edgellm` command. Ctrl-C ends it without a traceback, also during imports."""

import sys

from edgellm.exit_codes import INTERRUPTED


def main() -> None:
    """Run the command line and exit with the documented exit code, without a traceback.

    0 done, 1 an error its message explains, 2 wrong usage, 130 interrupted, 141 the pipe was closed.
    """
    try:
        from edgellm.terminal.streams import prepare_streams

        prepare_streams()
        from edgellm.cli import run

        code = run()
    except KeyboardInterrupt:
        code = INTERRUPTED
    except RuntimeError as error:
        if not isinstance(error.__cause__, KeyboardInterrupt):  # a Ctrl-C while a class was created
            raise
        code = INTERRUPTED
    sys.exit(code)
