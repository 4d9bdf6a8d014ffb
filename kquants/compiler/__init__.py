"""From a kernel in Python to machine code for this CPU, which `cpu` describes.

`decorators` marks kernels and their parts, `target` is how Numba compiles them, by the passes of `pipeline`; `host` is
what LLVM compiles for, `old_x86` what old CPUs of that kind do without. `compile` makes object files of kernels, in
processes that `compilers` starts. `kquants.jit` keeps and loads these. `closure` tells which modules a kernel is made
of.
"""
