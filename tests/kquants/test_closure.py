"""Which modules a kernel is made of: the table of kernels, and import closures."""

import json
import os
from collections.abc import Iterator
from functools import partial
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest
from numba.core.dispatcher import Dispatcher
from numba.core.extending import _Intrinsic

from kquants.compiler import fingerprint
from kquants.compiler.closure import closures
from kquants.compiler.kernel_names import KERNELS_BY_MODULE, MODULE_BY_KERNEL
from support.package import python


def test_the_module_of_each_kernel_registers_it() -> None:
    code = """
import json, sys
from kquants.compiler import decorators
register, found = decorators.kernel, {}
def noted(name, *arguments, **options):
    frame = sys._getframe(1)
    while frame.f_code.co_name != "<module>":
        frame = frame.f_back
    found[name] = frame.f_globals["__name__"]
    return register(name, *arguments, **options)
decorators.kernel = noted
import kquants.compiler.kernels
print(json.dumps(found))
"""
    assert json.loads(python(code)) == MODULE_BY_KERNEL


@pytest.fixture(scope="module")
def closure_of() -> dict[str, set[str]]:
    """The closure of each module that registers kernels."""
    return {module: set(found) for module, found in closures(dict(fingerprint._sources()), KERNELS_BY_MODULE).items()}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_what_a_module_brings_is_in_its_closure(closure_of: dict[str, set[str]]) -> None:
    code = """
import os, sys
from importlib import import_module
import numba
for module in sys.argv[1:]:
    if not os.fork():
        import_module(module)
        print(module, *(name for name in sys.modules if name.split(".")[0] == "kquants"), flush=True)
        os._exit(0)
    os.wait()
"""
    lines = python(code, *closure_of).splitlines()
    assert len(lines) == len(closure_of)
    for line in lines:
        module, *brought = line.split()
        assert module in brought
        assert set(brought) <= closure_of[module]


def names_in(code: CodeType) -> set[str]:
    """Names of variables and attributes in code and the functions within."""
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*map(names_in, inner))


def parts_of(value: Any) -> Iterator[Any]:
    """What a value of a kernel refers to, one step on."""
    if isinstance(value, FunctionType):
        yield from (value.__globals__[name] for name in names_in(value.__code__) & value.__globals__.keys())
        yield from (cell.cell_contents for cell in value.__closure__ or ())
        yield from [*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values(), value.__dict__]
    elif isinstance(value, partial):
        yield from (value.func, value.args, value.keywords)
    elif isinstance(value, dict):
        yield from [*value.keys(), *value.values()]
    elif isinstance(value, list | tuple | set | frozenset):
        yield from value
    elif isinstance(value, type | ModuleType):
        yield from vars(value).values()
    elif isinstance(value, Dispatcher):
        yield value.py_func
    elif isinstance(value, _Intrinsic):
        yield value._defn
    elif isinstance(value, classmethod | staticmethod):
        yield value.__func__
    elif hasattr(value, "__wrapped__"):  # as of `functools.cache`
        yield value.__wrapped__
    elif home_of(value):
        yield from getattr(value, "__dict__", {}).values()


def home_of(value: Any) -> str:
    """The module of `kquants` that a value is from, or ""."""
    named = value if isinstance(value, FunctionType | type | ModuleType) else type(value)
    home = str(named.__name__ if isinstance(value, ModuleType) else named.__module__)
    return home if home.split(".")[0] == "kquants" else ""


def homes(value: Any) -> set[str]:
    """Modules of `kquants` whose functions, classes and values can be reached from a value, or from its parts."""
    seen, waiting, found = set(), [value], {""}
    while waiting:
        value = waiting.pop()
        if id(value) in seen or (isinstance(value, FunctionType | type | ModuleType) and not home_of(value)):
            continue  # Numba's, or Python's
        seen.add(id(value))
        found.add(home_of(value))
        waiting += parts_of(value)
    return found - {""}


def test_what_kernels_refer_to_is_in_their_closures(closure_of: dict[str, set[str]]) -> None:
    from kquants.compiler.kernels import KERNELS

    reached = {name: homes(KERNELS[name][0].py_func) for name in MODULE_BY_KERNEL}
    for name, module in MODULE_BY_KERNEL.items():
        assert KERNELS[name][0].py_func.__module__ in reached[name]
        assert reached[name] <= closure_of[module]
    assert reached["matmul_q4_k"] > {"kquants.matmul.quantized", "kquants.formats.q4_k", "kquants.simd.memory"}


def test_every_kind_of_import_counts() -> None:
    sources = {
        "kquants/__init__.py": "",
        "kquants/whole.py": "import kquants.a.one as name, sys",
        "kquants/variable.py": "from kquants.a.one import one",
        "kquants/module.py": "from kquants.a import one",
        "kquants/star.py": "from kquants.a.one import *",
        "kquants/late.py": "def f():\n    if f:\n        from kquants.a import one",
        "kquants/relative.py": "from .a import one",
        "kquants/a/__init__.py": "",
        "kquants/a/one.py": "from .. import end",
        "kquants/b/__init__.py": "from ..a import one",
        "kquants/b/two.py": "from . import three\nimport numpy.linalg",
        "kquants/b/three.py": "",
        "kquants/end.py": "from kquants import jit\nimport kquants.compiler.kernels, kquants.whole",
        "kquants/jit.py": "from kquants import late",
        "kquants/compiler/kernels.py": "from kquants import late",
    }
    modules = [f"kquants.{name}" for name in ("whole", "variable", "module", "star", "late", "relative", "b.two")]
    found = closures({path: text.encode() for path, text in sources.items()}, modules)
    one = {"kquants", "kquants.a", "kquants.a.one", "kquants.end", "kquants.whole"}
    for module in modules[:-1]:
        assert set(found[module]) == {module, *one}
    assert set(found["kquants.b.two"]) == {"kquants.b", "kquants.b.two", "kquants.b.three", *one}
