"""`python -m edgellm` is the `edgellm` command."""

from edgellm.entry import main

main()
