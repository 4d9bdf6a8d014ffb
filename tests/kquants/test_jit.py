"""Compiled kernels: compiled once, loaded without the compiler, and checked before they are loaded."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import gguf
import llvmlite
import numpy as np
import pytest

from kquants import jit
from kquants.compiler import cache, compile_workers, fingerprint
from kquants.compiler.kernel_names import MODULE_BY_KERNEL
from kquants.dequantize import dequantize
from support import ROOT
from support.kernels import KINDS, NAMES, cache_folder, call_address, random_blocks, same_bits

# Loads kernels in a process of its own, runs one, and prints which large modules that imported.
CHILD = """
import ctypes, sys
from pathlib import Path
from kquants import jit
address = jit.load(sys.argv[2:], Path(sys.argv[1]))[sys.argv[2]]
bf16, f32 = (ctypes.c_uint16 * 2)(0x3F80, 0xC000), (ctypes.c_float * 2)()
kernel = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 3)(address)
kernel(ctypes.addressof(ctypes.c_int64()), None, ctypes.addressof(bf16), 2, ctypes.addressof(f32))
print(*f32, *sorted({"numba", "numpy", "llvmlite"} & sys.modules.keys()))
"""
SMALL = "dequantize_bf16"
COMPILED = ["1.0", "-2.0", "llvmlite"]


def child(folder: Path, *names: str, root: Path = ROOT, **options: object) -> "subprocess.Popen[str]":
    """A process that loads kernels from `folder`, with the package under `root`."""
    command = [sys.executable, "-P", "-c", CHILD, str(folder), *(names or (SMALL,))]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, env=environment | options.pop("env", {}), text=True, **pipes, **options)  # type: ignore


def answer(process: "subprocess.Popen[str]") -> list[str]:
    out, err = process.communicate()
    assert process.returncode == 0, err
    return out.split()


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """`jit.load` in this process as if nothing had been loaded."""
    monkeypatch.setattr(jit, "_ADDRESSES", {})


@pytest.fixture(scope="module")
def compiled_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("compiled")
    assert answer(child(folder)) == COMPILED
    return folder


@pytest.fixture
def compiled(tmp_path: Path, compiled_once: Path) -> Path:
    """A cache folder that holds SMALL, the test's own."""
    return shutil.copytree(compiled_once, tmp_path / "cache")


def only_object(folder: Path) -> Path:
    (path,) = folder.glob("*.o")
    return path


def test_a_kernel_is_compiled_once(compiled: Path) -> None:
    before = only_object(compiled).stat()
    assert answer(child(compiled)) == COMPILED
    after = only_object(compiled).stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX")
def test_the_folder_is_private(tmp_path: Path, fresh: None) -> None:
    folder = tmp_path / "parent" / "cache"
    old = os.umask(0)
    try:
        jit.load([SMALL], folder)
        assert folder.stat().st_mode & 0o777 == 0o700
    finally:
        os.umask(old)


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX")
def test_a_folder_that_others_may_write(compiled: Path, fresh: None, monkeypatch: pytest.MonkeyPatch) -> None:
    # Other users may have left anything there.
    compiled.chmod(0o777)
    load_with_a_warning(compiled, monkeypatch)
    compiled.chmod(0o700)


def damaged(stored: bytes) -> dict[str, bytes]:
    middle = len(stored) // 2
    flipped = stored[:middle] + bytes([stored[middle] ^ 1]) + stored[middle + 1 :]
    return {
        "empty": b"",
        "shorter than a checksum": stored[:20],
        "a checksum alone": stored[:32],
        "truncated": stored[:middle],
        "zeros": bytes(len(stored)),
        "longer": stored + b"\0",
        "one bit": flipped,
    }


@pytest.mark.parametrize("damage", damaged(bytes(100)))
def test_a_damaged_object_is_not_read(compiled: Path, damage: str) -> None:
    path = only_object(compiled)
    path.write_bytes(damaged(path.read_bytes())[damage])
    with cache.open_cache(compiled) as folder:
        assert folder
        assert folder.read(path.name) is None


def test_a_damaged_object_is_compiled_again(compiled: Path) -> None:
    path = only_object(compiled)
    whole = path.read_bytes()
    path.write_bytes(damaged(whole)["one bit"])
    assert answer(child(compiled)) == COMPILED
    assert path.read_bytes() == whole, "the same source gives the same object"


def test_left_over_and_foreign_files_do_not_matter(compiled: Path) -> None:
    (compiled / "abandoned.tmp").write_bytes(b"\x7fELF")
    (compiled / f"{SMALL}-0123.o").write_bytes(b"")
    (compiled / "run-folder.o").mkdir()
    assert answer(child(compiled)) == COMPILED
    assert (compiled / "abandoned.tmp").exists()


def test_an_object_that_cannot_be_written(compiled: Path, fresh: None, monkeypatch: pytest.MonkeyPatch) -> None:
    path = only_object(compiled)
    path.unlink()
    path.mkdir()  # in the way, as a full disk is
    load_with_a_warning(compiled, monkeypatch)
    assert list(compiled.glob("*.o")) + list(compiled.glob("*.tmp")) == [path], "what was written in part is removed"


def test_a_name_of_no_kernel(tmp_path: Path, fresh: None) -> None:
    with pytest.raises(jit.KernelError, match=r"^there is no kernel no_such_kernel$"):
        jit.load([SMALL, "no_such_kernel"], tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX")
@pytest.mark.parametrize(
    ("number", "told"), [(9, "its process was killed, .* try again"), (11, "its process ended with signal 11")]
)
def test_a_compile_worker_that_is_killed(
    number: int, told: str, tmp_path: Path, fresh: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = subprocess.Popen

    def killed(*arguments: Any, **options: Any) -> "subprocess.Popen[str]":
        process = started(*arguments, **options)
        process.send_signal(number)
        return process

    monkeypatch.setattr(compile_workers.subprocess, "Popen", killed)
    with pytest.raises(jit.KernelError, match=f"^compiling {SMALL} failed: {told}$"):
        jit.load([SMALL], tmp_path)
    assert not list(tmp_path.glob("*.o"))


def test_debug_information_changes_nothing(compiled: Path, tmp_path: Path) -> None:
    """Of variables in a kernel that is compiled with it."""
    answers = [answer(child(tmp_path, "dequantize_bf16", "rms_norm", env={"NUMBA_DEBUGINFO": "1"}))]
    assert answers == [COMPILED]
    for path in compiled.glob("*.o"):
        assert (tmp_path / path.name).read_bytes() == path.read_bytes()


def load_with_a_warning(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Load SMALL with `folder` given, which cannot be used: it is compiled, and works."""
    compiled: list[str] = []
    compile_them = compile_workers.compile_missing

    def spy(names: Sequence[str], *rest: Any) -> None:
        compiled.extend(names)
        compile_them(names, *rest)

    monkeypatch.setattr(compile_workers, "compile_missing", spy)
    x, y = np.array([0x4040], np.uint16), np.zeros(1, np.float32)
    with pytest.warns(RuntimeWarning, match="cannot be kept in .*EDGELLM_CACHE"):
        address = jit.load([SMALL], folder)[SMALL]
    call_address(address, x.ctypes.data, 1, y.ctypes.data)
    assert y[0] == 3
    assert compiled == [SMALL]


def load_without_compiling(folder: Path, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Load SMALL from `folder`, where it is."""

    def fail(*given: object) -> None:
        raise AssertionError(given)

    monkeypatch.setattr(compile_workers, "compile_missing", fail)
    monkeypatch.setattr(jit, "_ADDRESSES", {})
    return bool(jit.load([SMALL], folder)[SMALL])


def test_a_folder_that_cannot_be_made(tmp_path: Path, fresh: None, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    load_with_a_warning(tmp_path / "file" / "cache", monkeypatch)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.skipif(os.name != "posix", reason="owners are POSIX")
def test_the_folder_of_another_user(compiled: Path, fresh: None, monkeypatch: pytest.MonkeyPatch) -> None:
    # Code in it must not be run, even if it is not damaged.
    only_object(compiled).write_bytes(b"evil")
    other = os.getuid() + 1
    if os.getuid() == 0:
        os.chown(compiled, other, -1)
    else:
        monkeypatch.setattr(os, "getuid", lambda: other)
    load_with_a_warning(compiled, monkeypatch)
    assert only_object(compiled).read_bytes() == b"evil"


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX")
def test_a_folder_that_cannot_be_written(compiled: Path, fresh: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode, dir_fd: False)  # the superuser may write everywhere
    path = only_object(compiled)
    path.rename(path.with_suffix(".away"))
    load_with_a_warning(compiled, monkeypatch)
    path.with_suffix(".away").rename(path)
    assert load_without_compiling(compiled, monkeypatch), "what is there is used"


@pytest.mark.skipif(os.name != "posix" or os.getuid() != 0, reason="only the superuser makes folders of its own")
def test_the_folder_of_the_superuser_serves_all(compiled: Path, fresh: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 1)
    assert load_without_compiling(compiled, monkeypatch)


def test_an_upgrade_of_numba_has_its_own_objects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llvmlite, "__file__", str(tmp_path / "llvmlite" / "__init__.py"))
    assert fingerprint._numba_version() == version("numba"), "where it lies elsewhere"
    told = tmp_path / "numba" / "_version.py"
    told.parent.mkdir()
    seen = set()
    for release in ("0.62.0", "0.62.1"):
        told.write_text(f'version = "{release}"')
        seen.add(fingerprint._environment.__wrapped__())
    assert len(seen) == 2


def test_numba_tells_its_version_beside_llvmlite() -> None:
    assert version("numba") in fingerprint._numba_version()


def test_a_changed_source_is_compiled(tmp_path: Path, compiled: Path) -> None:
    shutil.copytree(ROOT / "kquants", tmp_path / "kquants", ignore=shutil.ignore_patterns("__pycache__"))
    formats = tmp_path / "kquants" / "formats"
    shutil.copy(formats / "f16.py", formats / "bf16.py")
    assert answer(child(compiled, root=tmp_path)) == ["1.875", "-2.0", "llvmlite"]
    assert answer(child(compiled)) == COMPILED
    assert len(list(compiled.glob("*.o"))) == 2


def test_the_current_folder_is_not_where_modules_come_from(tmp_path: Path) -> None:
    for name in ("numba", "numpy", "kquants", "llvmlite", "hashlib"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('ran a file of the current folder')")
    assert answer(child(tmp_path / "cache", cwd=tmp_path)) == COMPILED


def test_a_numba_in_the_current_folder_changes_nothing(tmp_path: Path, compiled: Path) -> None:
    (tmp_path / "numba").mkdir()
    (tmp_path / "numba" / "__init__.py").touch()
    (tmp_path / "numba" / "_version.py").write_text("version = 'another'")
    # Not with -P: as from a script there, or python -m.
    command, environment = [sys.executable, "-c", CHILD, str(compiled), SMALL], {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == COMPILED
    assert only_object(compiled)


def test_two_processes_may_compile_at_once(tmp_path: Path) -> None:
    both = [child(tmp_path / "cache") for _ in range(2)]
    assert [answer(process) for process in both] == [COMPILED, COMPILED]
    assert sorted(path.suffix for path in (tmp_path / "cache").iterdir()) == [".index", ".o"]


@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX")
def test_a_killed_compilation_leaves_nothing_that_hurts(tmp_path: Path) -> None:
    process = child(tmp_path / "cache", start_new_session=True)
    while not list(tmp_path.glob("cache")):
        assert process.poll() is None
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert answer(child(tmp_path / "cache")) == COMPILED


def test_progress_counts_to_the_end(tmp_path: Path, fresh: None) -> None:
    told: list[tuple[int, int]] = []
    jit.load([SMALL, "dequantize_f32"], tmp_path / "cache", lambda done, total: told.append((done, total)))
    assert told[0] == (0, 2)
    assert told[-1] == (2, 2)
    assert sorted(told) == told
    told.clear()
    jit.load([SMALL, "dequantize_f32"], tmp_path / "cache", lambda done, total: told.append((done, total)))
    assert told == []


def test_an_interrupted_compilation_ends_its_workers(
    tmp_path: Path, fresh: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its processes get no Ctrl-C where the terminal sends none, as under the chat's screen."""
    begun: list[subprocess.Popen[str]] = []

    class Noted(subprocess.Popen):  # type: ignore[type-arg]
        def __init__(self, *args: object, **options: object) -> None:
            super().__init__(*args, **options)  # type: ignore[call-overload]
            begun.append(self)

    def leave(done: int, total: int) -> None:
        if begun:
            raise KeyboardInterrupt

    monkeypatch.setattr(subprocess, "Popen", Noted)
    with pytest.raises(KeyboardInterrupt):
        jit.load(NAMES[:20], tmp_path / "cache", leave)
    assert -signal.SIGTERM in [process.returncode for process in begun]


def test_a_compile_worker_that_fails_is_an_error_of_one_line(
    tmp_path: Path, fresh: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(MODULE_BY_KERNEL, "no_such_kernel", MODULE_BY_KERNEL[SMALL])
    with pytest.raises(jit.KernelError, match=r"^compiling no_such_kernel failed: KeyError: 'no_such_kernel'$"):
        jit.load(["no_such_kernel"], tmp_path)


def test_a_version_that_changes_meanwhile_is_an_error(
    tmp_path: Path, fresh: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    fingerprint.kernel_fingerprint(SMALL, None)
    monkeypatch.setenv("NUMBA_CPU_NAME", "generic")  # what the compiling child finds is not what we started with
    with pytest.raises(jit.KernelError, match=r"have changed since this process began.*start it again$"):
        jit.load([SMALL], tmp_path)


def test_kernels_loaded_one_by_one_keep_their_constants(fresh: None) -> None:
    # LLVM's linker loses those of later objects when it is used for several.
    for name in NAMES:
        jit.load([name], cache_folder())
    rng = np.random.default_rng(4)
    for name, kind in KINDS.items():
        blocks = random_blocks(rng, kind, 256 // kind.block)
        wanted = gguf.quants.dequantize(blocks.reshape(-1), gguf.GGMLQuantizationType[name])
        assert same_bits(dequantize(kind, blocks.reshape(-1), cache_folder()), wanted)
