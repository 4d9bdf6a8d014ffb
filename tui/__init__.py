"""The terminal chat. It knows the public names of `edgellm` and nothing below them."""
