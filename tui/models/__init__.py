"""The picker of models: those on this machine, and those to pull."""
