"""Which changes compile which kernels anew, and what is cached between starts."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kquants import ENCODED_FORMATS, FLOAT_FORMATS, FORMATS, QUANTIZED_FORMATS, jit
from kquants.compiler import cache, fingerprint
from kquants.compiler.cache import KernelCache
from kquants.compiler.errors import CHANGED_MESSAGE
from kquants.compiler.kernel_names import MODULE_BY_KERNEL
from support.package import PACKAGE, SMALL, python


def fingerprints(folder: Path, root: Path = PACKAGE.parent, **environment: str) -> dict[str, str]:
    """The fingerprint of every kernel."""
    code = """
import json, sys
from pathlib import Path
from kquants.compiler.fingerprint import fingerprint, kernel_fingerprint
from kquants.compiler.cache import open_cache
from kquants.compiler.kernel_names import MODULE_BY_KERNEL
with open_cache(Path(sys.argv[1])) as folder:
    print(json.dumps({name: kernel_fingerprint(name, folder) for name in MODULE_BY_KERNEL} | {"": fingerprint()}))
"""
    found: dict[str, str] = json.loads(python(code, folder, root=root, **environment))
    return found


@pytest.fixture
def unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process as if it had read no index."""
    monkeypatch.setattr(fingerprint, "_CLOSURES", {})


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[KernelCache]:
    """An open cache folder."""
    with cache.open_cache(tmp_path / "cache") as opened:
        assert opened
        yield opened


@pytest.fixture(scope="module")
def folder_before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache folder in which `before` leaves its index."""
    return tmp_path_factory.mktemp("before")


@pytest.fixture(scope="module")
def before(folder_before: Path) -> dict[str, str]:
    """The fingerprint of every kernel, from unchanged sources; under "" that of the package."""
    return fingerprints(folder_before)


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
        return {name for name in MODULE_BY_KERNEL if after[name] != before[name]}

    return find


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_comments_docstrings_and_other_modules_change_nothing(copy: Path, changed: Callable[[], set[str]]) -> None:
    assert changed() == set(), "the place does not matter"
    for path in (copy / "simd" / "floats.py", copy / "formats" / "q4_k.py", copy / "compiler" / "target.py"):
        replace(path, '"""', '"""Another sentence. ')
        replace(path, "\n\n", "\n\n# A comment.\n\n")
    replace(copy / "records" / "header.py", '"""Words of', '"""Another sentence about a variable.\n\nWords of')
    replace(copy / "kv_layout.py", "def padded_head_dim(", "def padded_head_dim(  # where it is\n    ")
    for module in ("jit.py", "compiler/cache.py", "compiler/kernel_names.py", "compiler/kernels.py", "encode.py"):
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
        ("encoders/q6_k.py", {"encode_q6_k"}, MODULE_BY_KERNEL.keys() - {"encode_q6_k"}),
        (
            "encoders/lane_ops.py",
            {"encode_q6_k", "encode_q4_0"},
            MODULE_BY_KERNEL.keys() - ENCODERS - {"round_columns"},
        ),
        ("matmul/floats.py", FLOATS, MODULE_BY_KERNEL.keys() - FLOATS),
        ("matmul/split_k.py", TILED, {"attention_f16", "embed_q4_k", "quantize"}),
        ("formats/q4_k.py", {*TILED, "embed_q4_k", "encode_q4_k"}, {"encode_q6_k", "attention_f16", "quantize"}),
        ("layout.py", {*TILED, *FLOATS, "attention_f16", "quantize", "run_worker"}, {"encode_f32"}),
        ("simd/vectors.py", MODULE_BY_KERNEL.keys(), set()),
        ("simd/__init__.py", MODULE_BY_KERNEL.keys(), set()),
        ("compiler/compile.py", MODULE_BY_KERNEL.keys(), set()),
        ("compiler/cpu.py", MODULE_BY_KERNEL.keys(), set()),
        ("compiler/decorators.py", MODULE_BY_KERNEL.keys(), set()),
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
    assert changed() == set(MODULE_BY_KERNEL)


def test_an_annotation_is_code(copy: Path, changed: Callable[[], set[str]]) -> None:
    replace(copy / "records" / "header.py", "units: Word", "units: float")
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
    (copy / "ggml.py").rename(copy / "ggml_.py")
    found.add(python("from kquants.compiler import fingerprint; print(fingerprint.fingerprint())", root=tmp_path))
    assert len(found) == 3


def only_index(folder: Path) -> Path:
    (path,) = folder.glob("*.index")
    return path


def test_an_index_is_made_once(before: dict[str, str], tmp_path: Path) -> None:
    assert fingerprints(tmp_path) == before
    made = only_index(tmp_path).stat()
    assert fingerprints(tmp_path) == before
    after = only_index(tmp_path).stat()
    assert (after.st_ino, after.st_mtime_ns) == (made.st_ino, made.st_mtime_ns)


@pytest.mark.parametrize("damage", [b"", b"short", bytes(32), b"\xff" * 2000, None])
def test_a_damaged_index_is_made_again(
    damage: bytes | None, before: dict[str, str], folder_before: Path, folder: KernelCache, unknown: None
) -> None:
    made = only_index(folder_before)
    whole, path = made.read_bytes(), folder.path / made.name
    path.write_bytes(whole[:-1] if damage is None else damage)
    assert fingerprint.kernel_fingerprint(SMALL, folder) == before[SMALL]
    assert path.read_bytes() == whole


def test_an_index_that_cannot_be_written(before: dict[str, str], folder: KernelCache, unknown: None) -> None:
    assert fingerprint.kernel_fingerprint(SMALL, None) == before[SMALL]
    path = folder.path / fingerprint._index_name()
    path.mkdir()  # in the way, as a full disk is
    fingerprint._CLOSURES.clear()
    assert fingerprint.kernel_fingerprint(SMALL, folder) == before[SMALL]
    assert list(folder.path.iterdir()) == [path]


def test_sources_that_changed_since_the_start_are_an_error(
    copy: Path, tmp_path: Path, unknown: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    fingerprint.fingerprint()
    replace(copy / "kv_layout.py", "PAGE = ", "PAGE = 2 * ")
    monkeypatch.setattr(fingerprint, "_PACKAGE", copy)
    monkeypatch.setattr(jit, "_ADDRESSES", {})
    with pytest.raises(jit.KernelError, match=r"have changed since this process began.*start it again"):
        jit.load([SMALL], tmp_path / "cache")
    assert not list((tmp_path / "cache").iterdir())


@pytest.mark.parametrize("moment", ["before", "while"])
def test_no_kernel_of_old_sources_gets_the_name_of_new_ones(moment: str, copy: Path, tmp_path: Path) -> None:
    """Sources change before a compiler begins, or when it has compiled one of two kernels."""
    code = f"""
import sys
from pathlib import Path
from kquants import jit
from kquants.compiler import cache
path, source, names = Path(sys.argv[1]), Path(sys.argv[2]), ["dequantize_bf16", "dequantize_q8_0"]
def change(done=1, total=2):
    if done == 1:
        source.write_text(source.read_text().replace("BITS, OFFSET = 8, ", "BITS, OFFSET = 8, 0 + "))
with cache.open_cache(path) as folder:
    print(*[jit.file_name(name, folder) for name in names])
if {moment!r} == "before":
    change()
try:
    jit.load(names, path, change)
except jit.KernelError as error:
    print(error)
"""
    source = copy / "formats" / "q8_0.py"
    assert "BITS, OFFSET = 8, " in source.read_text()
    files, *said = python(code, tmp_path / "cache", source, root=tmp_path).splitlines()
    assert "BITS, OFFSET = 8, 0 + " in source.read_text()
    kept_then = {path.name for path in (tmp_path / "cache").glob("*.o")}
    assert (kept_then, said) == ((set(), [CHANGED_MESSAGE]) if moment == "before" else (set(files.split()), []))


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX")
def test_nothing_is_read_where_others_may_write(tmp_path: Path, unknown: None, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    monkeypatch.setattr(jit, "_ADDRESSES", {})
    monkeypatch.setattr(KernelCache, "read", lambda folder, name: read.append(name))
    tmp_path.chmod(0o777)
    with pytest.warns(RuntimeWarning, match="cannot be kept"):
        jit.load([SMALL], tmp_path)
    assert not read
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
