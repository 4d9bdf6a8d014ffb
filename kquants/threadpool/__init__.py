"""The thread pool in which kernels run a program.

control_block  layout of the memory that controls the threads; imports nothing
jobs           kernels that submit a job and run it, in the calling thread and in the workers
interpreter    one op: its units of work, each thread's share of them, the call of its kernel
barrier        where threads wait for each other: they spin, yield, then sleep
clock          how thread 0 knows when to return to Python
"""
