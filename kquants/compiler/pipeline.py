"""The part of Numba that kernels need: its passes from bytecode to LLVM's code, and the declarations of built-ins.

Numba's own pipeline also handles arrays, with blocks, closures, parallel loops and generators, checks and times each
pass, loads its support of NumPy, counts references, and checks every call for an error. Without these it takes half the
time and emits a quarter less code (measured on Zen 4: attention over f16 pages).
"""

from functools import cache, cached_property
from typing import Any

from llvmlite import ir
from numba.core import callconv, cgutils, compiler, cpu, lowering, typed_passes, typing, untyped_passes
from numba.core.compiler_machinery import CompilerPass, PassManager, register_pass


class _Lower(lowering.Lower):
    """Lowers the body of a function. Variables are neither reference-counted nor cleared.

    A variable must be assigned on every path to its use; before that it is undefined.
    """

    def alloca_lltype(self, name: str, lltype: ir.Type, datamodel: Any = None) -> Any:
        """The stack slot of a variable."""
        with self.builder.goto_entry_block():
            return self.builder.alloca(lltype, name=name)

    def storevar(self, value: Any, name: str, argidx: int | None = None) -> None:
        """Assign to a variable."""
        self._alloca_var(name, self.typeof(name))
        if name in self._singly_assigned_vars:
            self._blk_local_varmap[name] = value
        else:
            self.builder.store(value, self.getvar(name))

    def delvar(self, name: str) -> None:
        """Do nothing."""


@register_pass(mutates_CFG=True, analysis_only=False)
class _Lowering(typed_passes.BaseNativeLowering):
    _name = "kquants_lowering"

    @property
    def lowering_class(self) -> type[_Lower]:
        return _Lower


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
    _Lowering,
    typed_passes.NoPythonBackend,
)


class _Passes(PassManager):
    def _runPass(self, index: int, step: Any, state: Any) -> None:  # noqa: N802
        """Run a pass, without the timers, events and checks that Numba adds."""
        step.analysis = self._analysis
        step.run_pass(state)


class Pipeline(compiler.CompilerBase):
    """Compiles one function: Numba's bytecode analysis, type inference and lowering."""

    def define_pipelines(self) -> list[PassManager]:
        """The passes; Numba calls this for each function."""
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
        """Leave out the types of NumPy, lists, sets, dicts and enums."""


class _CallConv(callconv.CPUCallConv):
    """Numba's calling convention, except that callers do not check for an error: kernels must not raise any."""

    def call_function(self, builder: Any, callee: Any, resty: Any, argtys: Any, args: Any, attrs: Any = None) -> Any:
        """Emit a call; returns (no status, the result)."""
        assert not attrs, "attributes of calls are not supported"
        result = cgutils.alloca_once(builder, self.get_return_type(resty).pointee)
        given = self._get_arg_packer(argtys).as_arguments(builder, args)
        builder.call(callee, [result, builder.function.args[1], *given])
        return None, self.context.get_returned_value(builder, resty, builder.load(result))


class TargetContext(cpu.CPUContext):
    """How functions are lowered to LLVM's code."""

    @cached_property
    def call_conv(self) -> _CallConv:
        """The calling convention between functions."""
        return _CallConv(self)

    def insert_user_function(self, func: Any, fndesc: Any, libs: Any = ()) -> None:
        """Register a compiled function, so that others can call it."""

        def call(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            callee = context.declare_function(builder.module, fndesc)
            return context.call_conv.call_function(builder, callee, fndesc.restype, fndesc.argtypes, args)[1]

        lowered: Any = call
        lowered.libs = tuple(libs)  # Numba links these libraries with the caller
        self._defns[func].append(lowered, fndesc.argtypes)

    def load_additional_registries(self) -> None:
        """Load the lowering of numbers, tuples and ranges only."""
        from numba.core import optional  # noqa: F401
        from numba.cpython import builtins, iterators, numbers, rangeobj, tupleobj  # noqa: F401

    def post_lowering(self, module: Any, library: Any) -> None:
        """Link no memory management: kernels allocate nothing."""
