"""What happens to activations between products: norms, biases, SwiGLU, and their quantization."""
