"""`edgellm pull`, and `edgellm convert ORG/NAME`, as people use them."""

import signal
import subprocess
import sys
from pathlib import Path
from threading import Event
from time import monotonic, sleep

import pytest
from click.testing import CliRunner, Result

from edgellm.cli.convert import command as convert_command
from edgellm.cli.pull import command
from edgellm.errors import EdgeLLMError, OptionError
from edgellm.gguf import GGUFFile
from edgellm.models import find_models, resolve
from support.hub_pull import FILE, NAME
from support.hub_server import COMMIT, STAYS_OPEN, Hub, breaks_off, hub, sends, waits
from support.local_models import Machine, machine
from support.make_checkpoint import write_checkpoint
from support.model_file import ModelFile

__all__ = ["hub", "machine"]


def run(*args: str) -> Result:
    return CliRunner().invoke(command, args, catch_exceptions=False)


def start(*args: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "edgellm", *args]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def edgellm(*args: str) -> tuple[int, str, str]:
    process = start(*args)
    out, err = process.communicate()
    return process.returncode, out, err


def wait_for_a_part(machine: Machine, nbytes: int) -> Path:
    """The partial file of a download, once it has this many bytes."""
    end = monotonic() + 30
    while monotonic() < end:
        for part in machine.own.glob("models/.incoming/*/*/*/*.part"):
            if part.stat().st_size >= nbytes:
                return part
        sleep(0.01)
    raise AssertionError("nothing comes")


def test_a_model_is_downloaded_and_the_next_command_runs(machine: Machine, hub: Hub, model_file: ModelFile) -> None:
    hub.add(NAME, README__md=b"text", Tiny_Q8_0__gguf=model_file(types="F32").read_bytes())
    code, out, err = edgellm("pull", NAME)
    path = machine.own / "models" / NAME / "Tiny_Q8_0.gguf"
    assert (code, out.splitlines()) == (
        0,
        [f"{path} is complete", "next: edgellm generate Tiny_Q8_0 -p 'Hello!'"],
    )
    assert err.startswith(f"{NAME}: Tiny_Q8_0.gguf, ")
    assert err.count("\n") == 1
    for name in ("Tiny_Q8_0", f"{NAME}:Q8_0", NAME):
        assert resolve(name) == path
    assert not any("torch/" in asked.agent or "agent/" in asked.agent for asked in hub.asked)
    code, out, err = edgellm("verify", f"{NAME}:q8_0")
    assert (code, err) == (0, "")


def test_a_killed_pull_is_resumed(machine: Machine, hub: Hub) -> None:
    hub.add(NAME, m__gguf=FILE)
    hub.faults = [STAYS_OPEN]
    process = start("pull", NAME)
    part = wait_for_a_part(machine, 40_000)
    process.kill()
    process.communicate()
    kept = part.stat().st_size
    assert [found.problem is None for found in find_models()] == [False]
    assert run(NAME).exit_code == 0
    assert hub.files_asked[-1].range == f"bytes={kept}-"
    assert (machine.own / "models" / NAME / "m.gguf").read_bytes() == FILE
    assert not (machine.own / "models/.incoming").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="signals are others there")
def test_ctrl_c_keeps_the_downloaded_bytes(machine: Machine, hub: Hub) -> None:
    hub.add(NAME, m__gguf=FILE)
    hub.faults = [STAYS_OPEN]
    process = start("pull", NAME)
    part = wait_for_a_part(machine, 40_000)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert (process.returncode, out) == (130, "")
    assert err.splitlines()[-1] == "stopped; the downloaded bytes are kept, and the same command resumes"
    assert FILE.startswith(part.read_bytes())


def test_one_pull_of_a_model_at_a_time(machine: Machine, hub: Hub) -> None:
    hub.add(NAME, m__gguf=FILE)
    released = Event()
    hub.faults = [waits(released, 20_000)]
    process = start("pull", NAME)
    wait_for_a_part(machine, 1)
    with pytest.raises(EdgeLLMError, match="is being pulled by another edgellm"):
        run(NAME)
    released.set()
    out, _ = process.communicate()
    assert process.returncode == 0
    assert "is complete" in out


def test_errors_are_one_line(machine: Machine, hub: Hub) -> None:
    hub.add(NAME, m__gguf=FILE)
    hub.faults = [sends(b"", 403, X_Error_Code="GatedRepo")]
    assert edgellm("pull", NAME) == (
        1,
        "",
        f"{NAME}: m.gguf, 200 kB\nedgellm: {NAME} is gated: ask for access at {hub.url}/{NAME}, then give a token with "
        "HF_TOKEN or `hf auth login`\n",
    )
    code, out, err = edgellm("pull", "nonsense")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert edgellm("pull", "org/none") == (
        1,
        "",
        f"edgellm: org/none does not exist on {hub.url} (404); check the name\n",
    )


def test_waiting_is_shown(machine: Machine, hub: Hub) -> None:
    hub.add(NAME, m__gguf=FILE)
    hub.faults = [sends(b"", 429, Retry_After="3"), breaks_off(1000)]
    lines = run(NAME).stderr.splitlines()
    assert lines[1] == "the hub answers 429; trying again in 3 s"
    assert lines[2].startswith("the connection to http://127.0.0.1")
    assert lines[2].endswith("; trying again in 2 s")


def test_a_model_that_is_here_is_not_downloaded(machine: Machine, hub: Hub) -> None:
    hub.add(NAME, m__gguf=FILE)
    run(NAME)
    again = run(NAME)
    assert "is here already, the same as on the hub" in again.stdout
    assert "next: edgellm generate m " in again.stdout
    assert len(hub.files_asked) == 1


def test_a_model_in_the_hugging_face_cache_is_not_downloaded(machine: Machine, hub: Hub) -> None:
    import hashlib

    hub.add(NAME, m__gguf=FILE)
    folder = machine.hub / "models--org--name-GGUF"
    blob = machine.write(folder / "blobs" / hashlib.sha256(FILE).hexdigest(), FILE)
    link = folder / "snapshots" / COMMIT / "m.gguf"
    link.parent.mkdir(parents=True)
    link.symlink_to(blob)
    assert f"{link} is here already, in the cache of Hugging Face" in run(NAME).stdout
    assert hub.files_asked == []
    blob.write_bytes(FILE[:1000])
    assert "is complete" in run(NAME).stdout


def test_the_network_may_be_forbidden(machine: Machine, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.add(NAME, m_q8_0__gguf=FILE)
    run(NAME)
    asked = len(hub.asked)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert "m_q8_0.gguf is here already (HF_HUB_OFFLINE" in run(f"{NAME}:Q8_0").stdout
    with pytest.raises(EdgeLLMError, match="HF_HUB_OFFLINE forbids the network"):
        run("org/other")
    assert len(hub.asked) == asked


def test_an_unsupported_architecture_is_noted_before_the_download(machine: Machine, hub: Hub) -> None:
    hub.add(NAME, m__gguf=FILE)
    hub.architecture = "jamba\x1b[2J"
    err = run(NAME).stderr
    assert "architecture jamba\\x1b[2J is not supported; it may run with --engine llama.cpp" in err


def test_a_repository_without_gguf_files(machine: Machine, hub: Hub) -> None:
    hub.add(NAME, model__safetensors=b"1", config__json=b"{}")
    with pytest.raises(EdgeLLMError, match=f"`edgellm convert {NAME}` makes one"):
        run(NAME)
    hub.add(NAME, pytorch_model__bin=b"1")
    with pytest.raises(EdgeLLMError, match="has no GGUF file; choose another"):
        run(NAME)


def test_unsafe_file_names_are_explained(machine: Machine, hub: Hub) -> None:
    hub.repositories[NAME] = {"$(touch X).gguf": FILE, "a b-Q8_0.gguf": FILE, "m-Q2_K.gguf": FILE}
    with pytest.raises(EdgeLLMError, match=r"the file a b-Q8_0.gguf is not fetched: names here begin with .*by hand"):
        run(f"{NAME}:Q8_0")
    with pytest.raises(EdgeLLMError, match=r"has no model Q5_K_M; it has Q2_K"):
        run(f"{NAME}:Q5_K_M")
    assert run(NAME).exit_code == 0
    del hub.repositories[NAME]["m-Q2_K.gguf"]
    with pytest.raises(EdgeLLMError, match=r"the file \$\(touch X\).gguf \(and 1 more\) is not fetched"):
        run(NAME)
    hub.repositories[NAME] = {f"m-Q6_K.gguf.part{n}of2": FILE for n in (1, 2)}
    with pytest.raises(
        EdgeLLMError, match=r"m-Q6_K.gguf.part1of2 is a piece of a GGUF file; download all of them, join"
    ):
        run(f"{NAME}:Q6_K")


def test_no_argument_lists_models_that_fit(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgellm.system.machine.available_memory", lambda: 2_000_000_000)
    head, *rows, empty, foot = run().stdout.splitlines()
    assert "good at" in head
    assert "2 GB" in foot
    assert empty == ""
    marked = [row.startswith("✓") for row in rows]
    assert marked == [size <= 1.2 for size in (float(row.removeprefix("✓").split()[1]) for row in rows)]
    assert True in marked
    assert False in marked
    assert all("/" in row.removeprefix("✓").split()[0] for row in rows)


def test_an_invalid_repository_name() -> None:
    with pytest.raises(OptionError, match=r"'?nonsense.* is not the name of a repository; give ORG/NAME"):
        run("nonsense")


def checkpoint(machine: Machine, hub: Hub) -> None:
    folder = machine.home / "made"
    write_checkpoint(folder)
    hub.repositories["org/name"] = {path.name: path.read_bytes() for path in folder.iterdir()}
    hub.repositories["org/name"] |= {"pytorch_model.bin": b"1", "consolidated.safetensors": b"2", "README.md": b"3"}


def convert(*args: str) -> tuple[int, str, str]:
    return edgellm("convert", "org/name", "-o", "made.gguf", "--type", "F16", *args)


def test_convert_from_the_hub(machine: Machine, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint(machine, hub)
    code, _, err = convert()
    assert code == 0, err
    assert "`edgellm rm org/name` frees" in err
    with GGUFFile.open(machine.here / "made.gguf") as file:
        assert file.architecture == "llama"
    fetched = {asked.path.rpartition("/")[2] for asked in hub.files_asked}
    assert {"model.safetensors", "README.md"} <= fetched
    assert not fetched & {"pytorch_model.bin", "consolidated.safetensors"}
    (listed,) = [found for found in find_models() if found.source == "edgellm"]
    assert listed.problem
    assert "is a checkpoint: `edgellm convert org/name` makes a GGUF file" in listed.problem
    asked = len(hub.files_asked)
    assert convert("--force", "--dry-run")[0] == 0
    assert len(hub.files_asked) == asked
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert convert("--force", "--dry-run")[0] == 0


def test_convert_uses_the_hugging_face_cache(machine: Machine, hub: Hub) -> None:
    checkpoint(machine, hub)
    folder = machine.hub / "models--org--name/snapshots" / COMMIT
    folder.mkdir(parents=True)
    for name, content in hub.repositories["org/name"].items():
        (folder / name).write_bytes(content)
    code, _, err = convert()
    assert code == 0, err
    assert "edgellm rm" not in err
    assert hub.files_asked == []


def test_convert_says_why_there_is_nothing_to_convert(machine: Machine, hub: Hub) -> None:
    for files, told in (
        ({"m.gguf": b"1"}, "`edgellm pull org/name` gets one"),
        ({"pytorch_model.bin": b"1", "config.json": b"{}"}, "has its weights pickled"),
        ({"adapter_model.safetensors": b"1"}, "holds a LoRA adapter"),
        ({"README.md": b"1"}, "has no config.json with .safetensors files"),
    ):
        hub.repositories["org/name"] = files
        with pytest.raises(EdgeLLMError, match=told):
            CliRunner().invoke(convert_command, ["org/name", "-o", "made.gguf"], catch_exceptions=False)
    assert list(machine.here.iterdir()) == []
