"""Which change compiles which kernels anew, and what of that is kept between starts."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest
from numba.core.dispatcher import Dispatcher
from numba.core.extending import _Intrinsic

import kquants
from kquants import ENCODED_FORMATS, FLOAT_FORMATS, FORMATS, QUANTIZED_FORMATS, fingerprint, jit, kept
from kquants.compiler.closure import closures
from kquants.names import MODULES, REGISTERED

PACKAGE = Path(kquants.__file__).parent
SMALL = "dequantize_bf16"
DAY_S = 24 * 60 * 60


def python(code: str, *arguments: object, root: Path = PACKAGE.parent, **environment: str) -> str:
    """What a process of its own prints, with the package under `root`."""
    command = [sys.executable, "-P", "-c", code, *map(str, arguments)]
    env = {**os.environ, "PYTHONPATH": str(root), **environment}
    return subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout


def fingerprints(folder: Path, root: Path = PACKAGE.parent, **environment: str) -> dict[str, str]:
    """The fingerprint of every kernel."""
    code = """
import json, sys
from pathlib import Path
from kquants.fingerprint import fingerprint, kernel_fingerprint
from kquants.names import MODULES
print(json.dumps({name: kernel_fingerprint(name, Path(sys.argv[1])) for name in MODULES} | {"": fingerprint()}))
"""
    found: dict[str, str] = json.loads(python(code, folder, root=root, **environment))
    return found


@pytest.fixture
def unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process as if it knew no closures."""
    monkeypatch.setattr(fingerprint, "_CLOSURES", {})


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The fingerprint of every kernel as the sources are; of "" that of the package."""
    return fingerprints(tmp_path_factory.mktemp("before"))


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the package."""
    copied: Path = shutil.copytree(PACKAGE, tmp_path / "kquants", ignore=shutil.ignore_patterns("__pycache__"))
    return copied


@pytest.fixture
def changed(copy: Path, before: dict[str, str], tmp_path: Path) -> Callable[[], set[str]]:
    """`changed()`: kernels whose fingerprint the copy has changed."""

    def find() -> set[str]:
        after = fingerprints(tmp_path, tmp_path)
        return {name for name in MODULES if after[name] != before[name]}

    return find


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_what_no_code_is_made_of_changes_nothing(copy: Path, changed: Callable[[], set[str]]) -> None:
    assert changed() == set(), "the place does not matter"
    for path in (copy / "simd" / "floats.py", copy / "formats" / "q4_k.py", copy / "compiler" / "target.py"):
        replace(path, '"""', '"""Another sentence. ')
        replace(path, "\n\n", "\n\n# A comment.\n\n")
    replace(copy / "records.py", '"""Words of', '"""Another sentence about a variable.\n\nWords of')
    replace(copy / "layout.py", "def padded(", "def padded(  # where it is\n    ")
    for module in ("jit.py", "kept.py", "names.py", "kernels.py", "encode.py", "compiler/compilers.py"):
        (copy / module).write_text((copy / module).read_text() + "\nCHANGED = 1\n")
    (copy / "new.py").write_text("A = 1\n")
    (copy / "compiler" / "broken.py").write_text("A =\n")
    assert changed() == set()


def of_formats(*operations: str, formats: tuple[str, ...] = FORMATS) -> set[str]:
    return {f"{operation}_{name.lower()}" for operation in operations for name in formats}


ENCODERS, FLOATS = of_formats("encode", formats=ENCODED_FORMATS), of_formats("matmul", formats=FLOAT_FORMATS)
TILED = of_formats("matmul", formats=QUANTIZED_FORMATS)


@pytest.mark.parametrize(
    ("module", "those", "others"),
    [
        ("encoders/q6_k.py", {"encode_q6_k"}, MODULES.keys() - {"encode_q6_k"}),
        ("encoders/lanes.py", {"encode_q6_k", "encode_q4_0"}, MODULES.keys() - ENCODERS),
        ("products/floats.py", FLOATS, MODULES.keys() - FLOATS),
        ("products/parts.py", TILED, {"attention_f16", "embed_q4_k", "quantize"}),
        ("formats/q4_k.py", {*TILED, "embed_q4_k", "encode_q4_k"}, {"encode_q6_k", "attention_f16", "quantize"}),
        ("layout.py", {*TILED, *FLOATS, "attention_f16", "quantize", "serve"}, {"encode_f32"}),
        ("simd/vectors.py", MODULES.keys(), set()),
        ("simd/__init__.py", MODULES.keys(), set()),
        ("compiler/compile.py", MODULES.keys(), set()),
        ("compiler/cpu.py", MODULES.keys(), set()),
        ("compiler/decorators.py", MODULES.keys(), set()),
    ],
)
def test_a_changed_module_changes_its_kernels(
    module: str, those: set[str], others: set[str], copy: Path, changed: Callable[[], set[str]]
) -> None:
    (copy / module).write_text((copy / module).read_text() + "\nCHANGED = 1\n")
    found = changed()
    assert those <= found
    assert not others & found


@pytest.mark.parametrize(
    ("module", "old", "new"),
    [("target", '"fastmath": False', '"fastmath": True'), ("host", "opt=3", "opt=2"), ("compile", "= 64", "= 32")],
)
def test_another_way_to_compile_changes_all(
    module: str, old: str, new: str, copy: Path, changed: Callable[[], set[str]]
) -> None:
    replace(copy / "compiler" / f"{module}.py", old, new)
    assert changed() == set(MODULES)


def test_an_annotation_is_code(copy: Path, changed: Callable[[], set[str]]) -> None:
    replace(copy / "records.py", "units: Word", "units: float")
    assert "quantize" in changed()


def test_another_cpu_changes_all(before: dict[str, str], tmp_path: Path) -> None:
    others = [{"NUMBA_CPU_NAME": "generic"}, {"NUMBA_CPU_FEATURES": "-avx512f"}]
    others.append({"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "+sse4.2"})
    found = [before, *(fingerprints(tmp_path, **other) for other in others)]
    for name in before:
        assert len({of_cpu[name] for of_cpu in found}) == 4


def test_any_byte_changes_the_fingerprint_of_the_package(copy: Path, before: dict[str, str], tmp_path: Path) -> None:
    found = {before[""], fingerprints(tmp_path, tmp_path)[""]}
    assert len(found) == 1
    replace(copy / "encode.py", "\n", "\n\n")
    found.add(fingerprints(tmp_path, tmp_path)[""])
    (copy / "records.py").rename(copy / "records_.py")
    found.add(python("from kquants import fingerprint; print(fingerprint.fingerprint())", root=tmp_path))
    assert len(found) == 3


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
import kquants.kernels
print(json.dumps(found))
"""
    assert json.loads(python(code)) == MODULES


@pytest.fixture(scope="module")
def closure_of() -> dict[str, set[str]]:
    """The closure of each module that registers kernels."""
    return {module: set(found) for module, found in closures(dict(fingerprint._sources()), REGISTERED).items()}


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
    from kquants.kernels import KERNELS

    reached = {name: homes(KERNELS[name][0].py_func) for name in MODULES}
    for name, module in MODULES.items():
        assert KERNELS[name][0].py_func.__module__ in reached[name]
        assert reached[name] <= closure_of[module]
    assert reached["matmul_q4_k"] > {"kquants.products.tiled", "kquants.formats.q4_k", "kquants.simd.memory"}


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
        "kquants/end.py": "from kquants import jit\nimport kquants.kernels, kquants.whole",
        "kquants/jit.py": "from kquants import late",
        "kquants/kernels.py": "from kquants import late",
    }
    modules = [f"kquants.{name}" for name in ("whole", "variable", "module", "star", "late", "relative", "b.two")]
    found = closures({path: text.encode() for path, text in sources.items()}, modules)
    one = {"kquants", "kquants.a", "kquants.a.one", "kquants.end", "kquants.whole"}
    for module in modules[:-1]:
        assert set(found[module]) == {module, *one}
    assert set(found["kquants.b.two"]) == {"kquants.b", "kquants.b.two", "kquants.b.three", *one}


def only_index(folder: Path) -> Path:
    (path,) = folder.glob("*.index")
    return path


def test_an_index_is_made_once(before: dict[str, str], tmp_path: Path) -> None:
    assert fingerprints(tmp_path) == before
    made = only_index(tmp_path).stat()
    assert fingerprints(tmp_path) == before
    assert only_index(tmp_path).stat() == made


@pytest.mark.parametrize("damage", [b"", b"short", bytes(32), b"\xff" * 2000, None])
def test_a_damaged_index_is_made_again(
    damage: bytes | None, before: dict[str, str], tmp_path: Path, unknown: None
) -> None:
    fingerprint.kernel_fingerprint(SMALL, tmp_path)
    path = only_index(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] if damage is None else damage)
    fingerprint._CLOSURES.clear()
    assert fingerprint.kernel_fingerprint(SMALL, tmp_path) == before[SMALL]
    assert path.read_bytes() == whole


def test_an_index_that_cannot_be_written(before: dict[str, str], tmp_path: Path, unknown: None) -> None:
    assert fingerprint.kernel_fingerprint(SMALL, tmp_path / "missing") == before[SMALL]
    path = fingerprint._index(tmp_path)
    path.mkdir()  # in the way, as a full disk is
    fingerprint._CLOSURES.clear()
    assert fingerprint.kernel_fingerprint(SMALL, tmp_path) == before[SMALL]
    assert list(tmp_path.iterdir()) == [path]


def test_sources_that_changed_since_the_start_are_an_error(
    copy: Path, tmp_path: Path, unknown: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    fingerprint.fingerprint()
    replace(copy / "layout.py", "PAGE = ", "PAGE = 2 * ")
    monkeypatch.setattr(fingerprint, "_PACKAGE", copy)
    monkeypatch.setattr(jit, "_ADDRESSES", {})
    with pytest.raises(jit.KernelError, match=r"have changed since this process began.*start it again"):
        jit.load([SMALL], tmp_path / "cache")
    assert not list((tmp_path / "cache").iterdir())


@pytest.mark.parametrize("change", ["before it compiles", "while it compiles"])
def test_no_kernel_of_old_sources_gets_the_name_of_new_ones(change: str, copy: Path, tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    code = f"""
import io, sys
from pathlib import Path
from kquants.compiler import compile
from kquants import jit
folder, source, compiled = Path(sys.argv[1]), Path(sys.argv[2]), compile.object_code
def change(name):
    source.write_text(source.read_text().replace("BITS, OFFSET = 8, ", "BITS, OFFSET = 8, 0 + "))
def compile_and_change(name):
    code = compiled(name)
    change(name)
    return code
expected = jit.fingerprint()
if {change!r} == "before it compiles":
    jit.fingerprint.cache_clear()
    change("")
else:
    compile.object_code = compile_and_change
sys.stdin = io.StringIO("dequantize_q8_0")
try:
    compile.main(folder, expected)
except SystemExit as end:
    print(end.code)
"""
    assert "BITS, OFFSET = 8, " in (copy / "formats" / "q8_0.py").read_text()
    assert python(code, folder, copy / "formats" / "q8_0.py", root=tmp_path).split()[-1] == str(jit.CHANGED)
    assert not list(folder.glob("*.o"))


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX")
def test_nothing_is_read_where_others_may_write(tmp_path: Path, unknown: None, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Path] = []
    monkeypatch.setattr(jit, "_ADDRESSES", {})
    monkeypatch.setattr(kept, "read", lambda path, real=kept.read: read.append(path) or real(path))
    tmp_path.chmod(0o777)
    with pytest.warns(RuntimeWarning, match="cannot be kept"):
        jit.load([SMALL], tmp_path)
    assert {path.suffix for path in read} == {".o", ".index"}
    assert tmp_path not in [path.parent for path in read]
    assert not list(tmp_path.iterdir())


def test_a_start_neither_compiles_nor_parses(tmp_path: Path) -> None:
    code = """
import sys
import llvmlite.binding
from pathlib import Path
before = set(sys.modules)
from kquants import jit
jit.load(["dequantize_bf16"], Path(sys.argv[1]))
print(*sorted({"ast", "numba", "kquants.compiler.closure"} & (sys.modules.keys() - before)))
"""
    assert "kquants.compiler.closure" in python(code, tmp_path)
    assert python(code, tmp_path).split() == []


def aged(path: Path, days: int) -> Path:
    then = time.time() - days * DAY_S
    os.utime(path, (then, then))
    return path


def test_what_nobody_has_read_for_long_is_removed(tmp_path: Path) -> None:
    ours = [f"matmul_q4_k-{'0a' * 10}.o", f"matmul_q4_k-emulated-{'0a' * 10}.o", f"closures-{'0a' * 10}.index"]
    theirs = ["hello.o", "speeds.json", "matmul_q4_k-0123456789abcdef.o", f"Hello-{'0a' * 10}.o"]
    for name in (*ours, *theirs):
        kept.write(tmp_path / name, b"code")
        aged(tmp_path / name, 101)
    (tmp_path / f"folder-{'0a' * 10}.o").mkdir()
    aged(tmp_path / f"folder-{'0a' * 10}.o", 100)
    kept.write(tmp_path / f"young-{'0a' * 10}.o", b"code")
    assert kept.read(tmp_path / ours[0]) == b"code"
    kept.remove_unused(tmp_path)
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {ours[0], *theirs, f"folder-{'0a' * 10}.o", f"young-{'0a' * 10}.o"}
    kept.remove_unused(tmp_path / "missing")


def test_ninety_days_count_from_a_read_that_left_no_trace(tmp_path: Path) -> None:
    path = tmp_path / f"matmul_q4_k-{'0a' * 10}.o"
    kept.write(path, b"code")
    aged(path, 98)  # and read nine days later
    kept.remove_unused(tmp_path)
    assert path.exists()
    aged(path, 101)
    kept.remove_unused(tmp_path)
    assert not path.exists()


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX")
def test_a_folder_that_others_may_read_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / f"matmul_q4_k-{'0a' * 10}.o"
    kept.write(path, b"code")
    aged(path, 200)
    tmp_path.chmod(0o755)
    kept.remove_unused(tmp_path)
    assert path.exists()


def test_a_file_that_is_read_often_stays_as_it_was(tmp_path: Path) -> None:
    kept.write(tmp_path / "file", b"code")
    for days, stays in ((1, True), (20, False)):
        time_before = aged(tmp_path / "file", days).stat().st_mtime_ns
        kept.read(tmp_path / "file")
        assert ((tmp_path / "file").stat().st_mtime_ns == time_before) == stays


def test_to_compile_removes_what_is_unused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit, "_ADDRESSES", {})
    old = tmp_path / f"matmul_q4_k-{'0a' * 10}.o"
    old.touch()
    aged(old, 101)
    jit.load([SMALL], tmp_path)
    assert not old.exists()
