"""`python -m edgellm` is the `edgellm` command."""

from edgellm.cli import main

main()
