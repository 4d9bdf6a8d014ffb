"""Speed: what this machine can do, what a model asks of it, and the share that is used."""
