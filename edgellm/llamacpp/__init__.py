"""The engine llama.cpp, through llama-cpp-python.

It is in a child process, as llama.cpp ends its process on errors and writes to file descriptor 2.

engine      the engine, as a session sees it
slots       sequences, and the slots of llama.cpp's KV cache that hold their state
process     the child process, as the engine sees it
wire        requests and replies
worker      the child process itself
binding     a model in llama.cpp
stop_flag   the flag that llama.cpp polls
"""
