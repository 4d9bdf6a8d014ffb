"""The output file of a conversion: complete under its name or absent, with no other files left in the folder."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from converters.output import atomic_output, temporary_path
from converters.target import check_disk_space, check_target
from edgellm.errors import EdgeLLMError


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_what_is_written_out_of_order_appears_whole_at_the_end(tmp_path: Path) -> None:
    target = tmp_path / "out.gguf"
    target.write_bytes(b"old")
    with atomic_output(target, 8) as output:
        output.write(memoryview(b"last"), 4)
        output.write(memoryview(b"1st"), 0)
        assert target.read_bytes() == b"old"
    assert target.read_bytes() == b"1st\0last"
    assert names(tmp_path) == ["out.gguf"]


@pytest.mark.parametrize("error", [EdgeLLMError("no"), KeyboardInterrupt()])
def test_an_error_leaves_everything_as_it_was(tmp_path: Path, error: BaseException) -> None:
    target = tmp_path / "out.gguf"
    target.write_bytes(b"old")
    with pytest.raises(type(error)), atomic_output(target, 100) as output:
        output.write(memoryview(b"new"), 0)
        raise error
    assert target.read_bytes() == b"old"
    assert names(tmp_path) == ["out.gguf"]


def test_what_a_killed_run_left_is_taken_over(tmp_path: Path) -> None:
    target = tmp_path / "out.gguf"
    temporary_path(target).write_bytes(b"left by a run that was killed" * 100)
    with atomic_output(target, 4) as output:
        output.write(memoryview(b"new!"), 0)
    assert target.read_bytes() == b"new!"
    assert names(tmp_path) == ["out.gguf"]


def test_two_processes_do_not_write_the_same_file(tmp_path: Path) -> None:
    target = tmp_path / "out.gguf"
    script = (
        "import sys; from pathlib import Path; from converters.output import atomic_output\n"
        "with atomic_output(Path(sys.argv[1]), 3) as output:\n"
        "    output.write(memoryview(b'his'), 0); print(flush=True); sys.stdin.read()"
    )
    other = subprocess.Popen([sys.executable, "-c", script, str(target)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert other.stdin and other.stdout
    other.stdout.readline()
    with pytest.raises(EdgeLLMError, match=r"out\.gguf: another process is writing it"), atomic_output(target, 4):
        pass
    other.communicate()
    assert other.returncode == 0
    assert target.read_bytes() == b"his"
    assert names(tmp_path) == ["out.gguf"]


def test_a_temporary_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    temporary_path(tmp_path / "out.gguf").symlink_to(victim)
    with pytest.raises(EdgeLLMError, match="cannot be written"), atomic_output(tmp_path / "out.gguf", 1):
        pass
    assert victim.read_bytes() == b"precious"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_one_line(tmp_path: Path) -> None:
    from converters.output import OutputFile

    handle = os.open("/dev/full", os.O_WRONLY)
    try:
        with pytest.raises(EdgeLLMError, match="No space left on device"):
            OutputFile(handle, tmp_path / "out.gguf").write(memoryview(b"x"), 0)
    finally:
        os.close(handle)


def test_places_where_no_file_can_be_written(tmp_path: Path) -> None:
    source = tmp_path / "in.gguf"
    source.write_bytes(b"x")
    (tmp_path / "link.gguf").symlink_to(source)
    os.link(source, tmp_path / "hard.gguf")
    (tmp_path / "loop").symlink_to("loop")
    places: dict[Path | str, str] = {
        "": "empty name",
        tmp_path: "is a folder",
        tmp_path / "no" / "out.gguf": "there is no folder",
        source: "is read by this command",
        tmp_path / "link.gguf": "is read by this command",
        tmp_path / "hard.gguf": "is read by this command",
        tmp_path / "loop": "is no path to a file",
        "a\0b": "is no path to a file",
    }
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "fifo")
        places[tmp_path / "fifo"] = "is not a regular file"
    for place, problem in places.items():
        with pytest.raises(EdgeLLMError, match=problem):
            check_target(place, [source], force=True)


def test_an_existing_file_needs_force_and_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(b"x")
    (tmp_path / "link").symlink_to("there")
    with pytest.raises(EdgeLLMError, match="--force"):
        check_target(tmp_path / "link", [], force=False)
    assert check_target(tmp_path / "link", [], force=True) == tmp_path / "there"


def test_a_file_larger_than_the_disk_is_refused_before(tmp_path: Path) -> None:
    check_disk_space(tmp_path / "out.gguf", 1)
    with pytest.raises(EdgeLLMError, match="File name too long"):
        check_disk_space(tmp_path / ("x" * 250), 1)
    with pytest.raises(EdgeLLMError, match=r"needs 1\.15 EB, and its disk has .* free"):
        check_disk_space(tmp_path / "out.gguf", 1 << 60)
