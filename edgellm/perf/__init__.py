"""Speed: what this machine can do, what a model needs, and how much of it decoding uses.

microbenchmark   runs one kernel alone, on threads of its own: memory reads, the int8 peak, a matmul
bandwidth        measures the machine with it: memory bandwidth, matmul bandwidth, int8 peak
cpu_share        whether another program took the CPU from a measurement
machine_profile  keeps what was measured, in the file `speeds.json`, for other processes
roofline         bytes that decoding a token reads and multiplies, and the tokens per second to expect of them
mbu              memory bandwidth utilization of an open model
plan             memory and speed of a model, predicted from its file: `edgellm plan`
"""
