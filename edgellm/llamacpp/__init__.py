"""Floor 3, the second engine: llama.cpp, through llama-cpp-python, in a child process of ours.

In a child, because llama.cpp ends its process on errors and writes to file descriptor 2.
"""
