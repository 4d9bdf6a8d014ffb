"""RAPL counters, by a folder like that of Linux."""

from pathlib import Path

import pytest

from edgellm.bench.serving.energy import Energy, EnergyMeter, NoEnergyError


def domain(powercap: Path, zone: str, name: str, energy: int, span: int = 1_000_000_000) -> Path:
    """Write a counter; returns its file."""
    folder = powercap / zone
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "name").write_text(f"{name}\n", "ascii")
    (folder / "max_energy_range_uj").write_text(f"{span}\n", "ascii")
    (folder / "energy_uj").write_text(f"{energy}\n", "ascii")
    return folder / "energy_uj"


def test_packages_are_summed_and_their_parts_are_not(tmp_path: Path) -> None:
    first = domain(tmp_path, "intel-rapl:0", "package-0", 5_000_000)
    second = domain(tmp_path, "intel-rapl:1", "package-1", 7_000_000)
    others = [domain(tmp_path, "intel-rapl:0:0", "core", 0), domain(tmp_path, "intel-rapl:2", "psys", 0)]
    others.append(domain(tmp_path, "intel-rapl-mmio:0", "package-0", 0))
    meter = EnergyMeter.open(tmp_path)
    first.write_text("6500000\n", "ascii")
    second.write_text("7250000\n", "ascii")
    for each in others:
        each.write_text("900000000\n", "ascii")
    assert meter.poll() == 1.75
    assert meter.poll() == 1.75


def test_a_counter_that_starts_anew(tmp_path: Path) -> None:
    counter = domain(tmp_path, "intel-rapl:0", "package-0", 90_000_000, span=100_000_000)
    meter = EnergyMeter.open(tmp_path)
    for value in (95_000_000, 3_000_000, 99_000_000, 1_000_000):
        counter.write_text(f"{value}\n", "ascii")
        meter.poll()
    assert meter.joules == pytest.approx(5 + 8 + 96 + 2)


def test_a_machine_without_counters(tmp_path: Path) -> None:
    energy = Energy(None, is_local=True, powercap=tmp_path)
    assert (energy.source, energy.note) == (None, f"{tmp_path} has no counter of a CPU package")
    energy.start()
    assert energy.used(3) is None


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (PermissionError(), "only root may read {}: run as root, or give --watts"),
        (OSError(5, "Input/output error"), "{}: Input/output error"),
    ],
)
def test_a_counter_that_cannot_be_read(
    error: OSError, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counter = domain(tmp_path, "intel-rapl:0", "package-0", 1)
    read_text = Path.read_text

    def read(path: Path, encoding: str) -> str:
        if path == counter:
            raise error
        return read_text(path, encoding)

    monkeypatch.setattr(Path, "read_text", read)
    assert Energy(None, is_local=True, powercap=tmp_path).note == told.format(counter)


def test_a_counter_without_a_number(tmp_path: Path) -> None:
    domain(tmp_path, "intel-rapl:0", "package-0", 1).write_text("many\n", "ascii")
    with pytest.raises(NoEnergyError, match="energy_uj has no number"):
        EnergyMeter.open(tmp_path)


def test_a_counter_that_disappears_during_a_run(tmp_path: Path) -> None:
    counter = domain(tmp_path, "intel-rapl:0", "package-0", 1)
    energy = Energy(None, is_local=True, powercap=tmp_path)
    energy.start()
    counter.unlink()
    energy.poll()
    assert (energy.used(1), energy.source) == (None, None)
    assert energy.note.endswith("energy_uj: No such file or directory")


def test_each_run_counts_its_own_energy(tmp_path: Path) -> None:
    counter = domain(tmp_path, "intel-rapl:0", "package-0", 0)
    energy = Energy(None, is_local=True, powercap=tmp_path)
    assert energy.source == "rapl"
    for value in (4_000_000, 5_000_000):
        energy.start()
        counter.write_text(f"{value}\n", "ascii")
        energy.poll()
    assert energy.used(60) == 1


def test_a_given_power_replaces_counters(tmp_path: Path) -> None:
    domain(tmp_path, "intel-rapl:0", "package-0", 1)
    energy = Energy(40, is_local=False, powercap=tmp_path)
    energy.start()
    assert (energy.source, energy.used(2.5), energy.note) == ("watts", 100, "")
    assert Energy(None, is_local=False, powercap=tmp_path).note == "the server runs on another machine"
