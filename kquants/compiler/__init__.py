"""From a kernel in Python to machine code for this CPU, which `cpu` describes.

`decorators` marks kernels and their parts, `target` is how Numba compiles them, `host` is what LLVM compiles for,
`compile` makes object files of them in processes that `compilers` starts. `kquants.jit` keeps and loads these.
`closure` tells which modules a kernel is made of.
"""
