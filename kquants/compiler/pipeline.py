"""The part of Numba that kernels need: its passes from bytecode to LLVM's code, and the declarations of built-ins.

Numba's own pipeline also looks for arrays, with blocks, closures, parallel loops and generators, checks and times each
pass, and loads what it knows of NumPy. To leave that out, and its memory management, takes a third off its time.
"""

from functools import cache
from typing import Any

from numba.core import compiler, cpu, typed_passes, typing, untyped_passes
from numba.core.compiler_machinery import CompilerPass, PassManager

_PASSES: tuple[type[CompilerPass], ...] = (
    untyped_passes.TranslateByteCode,
    untyped_passes.FixupArgs,
    untyped_passes.IRProcessing,
    untyped_passes.RewriteSemanticConstants,
    untyped_passes.DeadBranchPrune,
    untyped_passes.GenericRewrites,
    untyped_passes.ReconstructSSA,
    typed_passes.NopythonTypeInference,
    typed_passes.PreLowerStripPhis,
    typed_passes.IRLegalization,
    typed_passes.NativeLowering,
    typed_passes.NoPythonBackend,
)


class _Passes(PassManager):
    def _runPass(self, index: int, step: Any, state: Any) -> None:  # noqa: N802
        """Run a pass: without the timers, events and checks that Numba adds to each."""
        step.analysis = self._analysis
        step.run_pass(state)


class Pipeline(compiler.CompilerBase):
    """Compiles one function: Numba's bytecode analysis, type inference and lowering."""

    def define_pipelines(self) -> list[PassManager]:
        """The passes; Numba asks anew for each function."""
        return [_pass_manager()]


@cache
def _pass_manager() -> PassManager:
    passes = _Passes("kquants")
    for step in _PASSES:
        passes.add_pass(step, step.__name__)
    passes.finalize()
    return passes


class TypingContext(typing.Context):
    """Types of the built-in functions and operators of Python, for numbers, tuples and ranges."""

    def load_additional_registries(self) -> None:
        """Leave out what Numba knows of NumPy, lists, sets, dicts and enums."""


class TargetContext(cpu.CPUContext):
    """How these are lowered to LLVM's code."""

    def load_additional_registries(self) -> None:
        """Load what lowers numbers, tuples and ranges, and nothing else."""
        from numba.core import optional  # noqa: F401
        from numba.cpython import builtins, iterators, numbers, rangeobj, tupleobj  # noqa: F401

    def post_lowering(self, module: Any, library: Any) -> None:
        """Link no memory management: kernels allocate nothing."""
