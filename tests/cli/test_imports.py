"""Imports: the contract of the layers, and that nothing heavy is imported before it is needed."""

import re
import subprocess
import sys

import pytest

from support import ROOT, TESTS
from support.imports import HEAVY, loaded


def test_a_lower_layer_never_imports_a_higher_one() -> None:
    """The contract in pyproject.toml, over all modules, lazy imports too."""
    pytest.importorskip("importlinter", reason="needs import-linter")
    code = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


@pytest.mark.parametrize("command", ["'--help'", "'--version'"])
def test_the_list_of_commands_needs_no_option_set(command: str) -> None:
    modules = loaded(f"sys.argv = ['edgellm', {command}]; from edgellm.entry import main; main()")
    assert "edgellm.cli" in modules
    assert not modules & {"edgellm.options.definitions", "dataclasses"}


@pytest.mark.parametrize(
    "command", ["'--help'", "'--version'", "'generate', '--help'", "'serve', '--help'", "'batch', '--help'"]
)
def test_help_loads_nothing_heavy(command: str) -> None:
    modules = loaded(f"sys.argv = ['edgellm', {command}]; from edgellm.entry import main; main()")
    assert "edgellm.cli" in modules
    assert not modules & HEAVY


def test_the_engine_alone_loads_nothing_of_a_gpu() -> None:
    modules = loaded("import edgellm.engine.native_engine")
    assert not [name for name in modules if name.startswith(("edgellm.process", "edgellm.engine.webgpu", "wgpu"))]


def test_the_package_alone_loads_nothing_heavy() -> None:
    assert not loaded("import edgellm, edgellm.errors, edgellm.options, kquants") & HEAVY


@pytest.mark.parametrize("front", ["tui.app", "tui.plain.chat"])
def test_the_chat_stands_before_the_engine_is_loaded(front: str) -> None:
    modules = loaded(f"import edgellm.cli.chat, tui.start, {front}")
    assert front in modules
    assert not modules & (HEAVY - {"textual"})


def test_figures_can_be_shown_without_an_engine() -> None:
    assert not loaded("import edgellm.generate.stats, edgellm.generate.timing") & HEAVY


@pytest.mark.parametrize(
    ("module", "unknown"),
    [
        ("kquants.compiler.kernels", "edgellm"),
        ("kquants.jit", "edgellm"),
        ("edgellm.gguf.file", "edgellm.engine edgellm.arch edgellm.text edgellm.generate.session edgellm.cli"),
        (
            "edgellm.engine.native_engine",
            "edgellm.text edgellm.generate.session edgellm.generate.generation edgellm.cli",
        ),
        ("edgellm.text.tokenizer", "edgellm.engine edgellm.arch edgellm.generate.session"),
        ("edgellm.sampling.sampler", "edgellm.engine edgellm.gguf edgellm.generate.session"),
        ("edgellm.generate.generation", "edgellm.cli edgellm.model edgellm.chat tui converters"),
    ],
)
def test_a_module_imports_nothing_of_higher_layers(module: str, unknown: str) -> None:
    modules = loaded(f"import {module}")
    assert module in modules
    assert not modules & set(unknown.split())


def test_the_start_imports_nothing_that_is_used_later() -> None:
    modules = loaded("import edgellm.model; from kquants import jit; jit.fingerprint()")
    assert "kquants.jit" in modules
    slow = {"importlib.metadata", "email.message", "concurrent.futures", "statistics"}
    assert not modules & (slow | {"kquants.compiler.compile_workers", "edgellm.llamacpp.engine"})


def test_opening_a_model_needs_no_compiler() -> None:
    heavy = {"numba", "gguf", "llama_cpp", "textual", "wgpu", "edgellm.engine.webgpu.open_device"}
    assert not loaded("from edgellm import Model, Tokenizer, Chat") & heavy


def test_no_test_imports_another() -> None:
    """What tests share is in tests/support."""
    named = {path.stem for path in TESTS.rglob("*.py") if not path.is_relative_to(TESTS / "support")}
    for path in TESTS.rglob("*.py"):
        for line in path.read_text(encoding="utf-8").splitlines():  # also in the code that a test hands to a child
            if re.match(r"\s*(?:from [\w.]+ import|import) [\w., ()*]+$", line):
                assert not named & set(re.findall(r"\w+", line)), f"{path}: {line}"


def test_every_test_lies_in_a_folder() -> None:
    assert not list(TESTS.glob("test_*.py"))
    assert not list(TESTS.rglob("support/**/test_*.py"))
