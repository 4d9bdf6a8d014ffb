"""The chat in lines, `edgellm chat --plain`: for pipes and screen readers."""
