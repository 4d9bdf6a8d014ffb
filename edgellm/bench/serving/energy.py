"""The energy that the CPU packages use, by RAPL counters of Linux (docs.kernel.org/power/powercap/powercap.html)."""

from pathlib import Path
from typing import Self

from edgellm.errors import EdgeLLMError

POWERCAP = Path("/sys/class/powercap")

_PACKAGE = "package-"
"""The names of domains that are a CPU package. `psys` contains packages, and others are parts of one."""


class NoEnergyError(EdgeLLMError):
    """The energy cannot be read; the message is the reason."""


class EnergyMeter:
    """Sums what the counters of all packages count up. A counter starts anew after `max_energy_range_uj`.

    `poll` must be called more often than that happens: after some minutes at the earliest.
    """

    def __init__(self, domains: list[Path]) -> None:
        self.joules = 0.0
        self._ranges = {domain: _number(domain / "max_energy_range_uj") for domain in domains}
        self._last = {domain: _number(domain / "energy_uj") for domain in domains}

    @classmethod
    def open(cls, powercap: Path = POWERCAP) -> Self:
        """A meter that begins now. Raises NoEnergyError."""
        domains = [each for each in sorted(powercap.glob("intel-rapl:*")) if _name(each).startswith(_PACKAGE)]
        if not domains:
            raise NoEnergyError(f"{powercap} has no counter of a CPU package")
        return cls(domains)

    def poll(self) -> float:
        """The joules since the meter began. Raises NoEnergyError."""
        for domain, before in self._last.items():
            now = _number(domain / "energy_uj")
            used = now - before if now >= before else now + self._ranges[domain] - before
            self._last[domain] = now
            self.joules += used / 1e6
        return self.joules


def _name(domain: Path) -> str:
    try:
        return (domain / "name").read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""


def _number(file: Path) -> int:
    try:
        return int(file.read_text(encoding="ascii"))
    except PermissionError:
        raise NoEnergyError(f"only root may read {file}: run as root, or give --watts") from None
    except OSError as error:
        raise NoEnergyError(f"{file}: {error.strerror}") from None
    except ValueError:
        raise NoEnergyError(f"{file} has no number") from None


class Energy:
    """The energy of runs: by the counters of this machine, or by a given power in watts.

    `note` says why there is none.
    """

    def __init__(self, watts: float | None, is_local: bool, powercap: Path = POWERCAP) -> None:
        """`is_local`: what is measured runs on this machine."""
        self._watts, self.note = watts, ""
        self._meter: EnergyMeter | None = None
        if watts is None and not is_local:
            self.note = "the server runs on another machine"
        elif watts is None:
            try:
                self._meter = EnergyMeter.open(powercap)
            except NoEnergyError as error:
                self.note = str(error)
        self._begin = 0.0

    @property
    def source(self) -> str | None:
        """`watts`, `rapl`, or None without any."""
        return "watts" if self._watts is not None else "rapl" if self._meter else None

    def start(self) -> None:
        """Begin a run."""
        self._begin = self._polled() or 0.0

    def poll(self) -> None:
        """Read the counters during a run, before they start anew twice."""
        self._polled()

    def used(self, seconds: float) -> float | None:
        """The joules of a run that took this time."""
        if self._watts is not None:
            return self._watts * seconds
        now = self._polled()
        return None if now is None else now - self._begin

    def _polled(self) -> float | None:
        try:
            return self._meter.poll() if self._meter else None
        except NoEnergyError as error:
            self._meter, self.note = None, str(error)
            return None
