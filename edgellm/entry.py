"""Where the `edgellm` command begins: Ctrl-C ends it without a traceback while it is imported, too."""

import sys

from edgellm.exit_codes import INTERRUPTED


def main() -> None:
    """Run the command line and leave with the documented exit code, never with a traceback.

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
        if not isinstance(error.__cause__, KeyboardInterrupt):  # one that came while a class was made
            raise
        code = INTERRUPTED
    sys.exit(code)
