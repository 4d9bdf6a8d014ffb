"""From a kernel in Python to machine code for this CPU. `kquants.jit` loads what is compiled here."""
