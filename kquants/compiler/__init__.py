"""From kernels in Python to machine code for this CPU, compiled once and cached. `kquants.jit` is the way in.

How a kernel is compiled:

    decorators       `@kernel` and `@inline`, which mark kernels and their parts
    target, pipeline how Numba compiles them to LLVM's code: its target and its passes
    compile          one process that compiles kernels to object code: `python -m kquants.compiler.compile`
    compile_workers  starts these processes, on all cores
    kernels          imports all modules that register kernels; `kernel_names` names both without importing them

For which CPU:

    host             LLVM's name, features and code generator of the CPU
    cpu              what this CPU can do
    old_x86          what x86 CPUs without FMA and F16C lack, in plain vector operations

Where a kernel is cached:

    cache            the cache folder and the files in it
    compile_lock     one process at a time compiles for a cache folder
    fingerprint      the hash in a cached kernel's file name; `closure` finds the modules that a kernel is made of
    errors           what can go wrong
"""
