"""Shell completion, by a real bash that has read the script."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from support import ROOT
from support.make_gguf import write_model

Complete = Callable[..., list[str]]


def edgellm(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "edgellm", *arguments], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script(shell: str) -> None:
    script = edgellm("completion", shell)
    assert "_EDGELLM_COMPLETE" in script
    assert f"{shell}_complete" in script


@pytest.fixture
def complete(tmp_path: Path) -> Complete:
    """What bash offers for a line in a folder with one model, under its name and as a file."""
    if not (bash := shutil.which("bash")):
        pytest.skip("needs bash")
    program = tmp_path / "bin" / "edgellm"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m edgellm "$@"\n')
    program.chmod(0o755)
    (tmp_path / "models").mkdir()
    write_model(tmp_path / "models" / "tiny-model.gguf")
    (tmp_path / "script").write_text(edgellm("completion", "bash"))

    def offered(*words: str) -> list[str]:
        quoted = " ".join(f"'{word}'" for word in words)
        line = f"source ./script; compopt() {{ :; }}; COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; "
        line += '_edgellm_completion edgellm; printf "%s\\n" "${COMPREPLY[@]}"'
        path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
        home = {"PATH": path, "PYTHONPATH": str(ROOT), "HOME": str(tmp_path), "EDGELLM_HOME": str(tmp_path / "home")}
        done = subprocess.run([bash, "-c", line], capture_output=True, text=True, check=True, cwd=tmp_path, env=home)
        assert not done.stderr
        return done.stdout.split()

    return offered


def test_bash_completes_commands_options_and_models(complete: Complete) -> None:
    assert complete("edgellm", "ge") == ["generate"]
    assert "chat" in complete("edgellm", "")
    assert complete("edgellm", "generate", "--template") == ["--template", "--template-arg"]
    assert complete("edgellm", "info", "tiny") == ["tiny-model"]
    assert complete("edgellm", "info", "nothing-like-it") == []
    assert "generate" in complete("edgellm", "genrate", ""), "the same as after any other word that is no command"
