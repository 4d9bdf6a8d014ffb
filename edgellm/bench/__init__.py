"""Floor 5: how fast a model runs here, and what the machine would allow; against llama.cpp on request."""
