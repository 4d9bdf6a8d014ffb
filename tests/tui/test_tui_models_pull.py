"""Pulling from the picker, and stopping it: the downloaded part stays, and the next pull resumes."""

from pathlib import Path
from threading import Event

import pytest
from textual.pilot import Pilot
from textual.widgets import Button, ProgressBar

from edgellm.hub import PullProgress, StoppedError, fetch_model
from support.hub_pull import FILE, NAME
from support.hub_server import STAYS_OPEN, Hub, breaks_off, hub, sends
from support.local_models import Machine, machine
from support.make_gguf import write_model
from support.tui_models_app import PickerApp, complete, enter, play, some_of_it, until
from tui.models.pull_status import PullStatus

__all__ = ["hub", "machine"]


def parts(machine: Machine) -> list[Path]:
    return list(machine.own.glob("models/.incoming/*/*/*/*.part"))


class Recorder(PullProgress):
    """Keeps what the progress shows after each event."""

    def __init__(self, stop: Event) -> None:
        self.shown: list[str] = []
        super().__init__(stop)

    def _now(self, doing: str = "") -> None:
        super()._now(doing)
        self.shown.append(str(self))


def test_a_follower_shows_every_step(machine: Machine, hub: Hub) -> None:
    hub.add(NAME, m__gguf=FILE)
    hub.faults = [breaks_off(150_000), sends(b"", 503, Retry_After="0")]
    progress = Recorder(Event())
    assert progress.share is None
    assert fetch_model(NAME, progress).path.read_bytes() == FILE
    assert progress.shown[0] == f"asking {hub.url}"
    assert any(line.endswith("trying again in 1 s") and "connection" in line for line in progress.shown)
    assert any(line.startswith("100% of 200 kB · ") for line in progress.shown)
    assert progress.shown[-1] == "checking m.gguf"
    assert progress.share == 1


@pytest.mark.parametrize("moment", ["connecting", "starting", "progressed", "retrying", "verifying"])
def test_a_pull_that_is_stopped_keeps_what_came(
    machine: Machine, hub: Hub, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Whenever it is stopped, and the next pull asks only for what is missing."""
    hub.add(NAME, m__gguf=FILE)
    hub.faults = [breaks_off(150_000)]
    stop = Event()
    theirs = getattr(PullProgress, moment)

    def stopping(progress: PullProgress, *told: object) -> None:
        if moment != "progressed" or told[2]:
            stop.set()
        theirs(progress, *told)

    monkeypatch.setattr(PullProgress, moment, stopping)
    with pytest.raises(StoppedError):
        fetch_model(NAME, PullProgress(stop))
    monkeypatch.setattr(PullProgress, moment, theirs)
    kept = b"".join(path.read_bytes() for path in machine.own.glob("models/.incoming/*/*/*/m.gguf*"))
    assert FILE.startswith(kept)
    assert bool(kept) == (moment not in ("connecting", "starting"))
    asked = len(hub.files_asked)
    assert fetch_model(NAME, PullProgress(Event())).path.read_bytes() == FILE
    ranges = [request.range for request in hub.files_asked[asked:]]
    assert ranges[:1] == ([] if moment == "verifying" else [f"bytes={len(kept)}-" if kept else None])
    assert not (machine.own / "models/.incoming").exists()


def test_reading_what_was_kept_can_be_stopped(machine: Machine, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long part takes a while to compare; nothing of it is lost."""
    hub.add(NAME, m__gguf=FILE)
    hub.faults = [breaks_off(150_000)]
    monkeypatch.setattr(PullProgress, "retrying", lambda progress, reason, seconds: progress._stop.set())
    with pytest.raises(StoppedError):
        fetch_model(NAME, PullProgress(Event()))
    (part,) = parts(machine)
    stop = Event()
    monkeypatch.setattr(PullProgress, "starting", lambda progress, what, nbytes: stop.set())
    with pytest.raises(StoppedError):
        fetch_model(NAME, PullProgress(stop))
    assert part.read_bytes() == FILE[:150_000]
    assert len(hub.files_asked) == 1


def test_a_pause_ends_when_it_is_stopped() -> None:
    stop = Event()
    progress = PullProgress(stop)
    progress.retrying("the hub answers 503", 3600)
    assert str(progress) == "the hub answers 503; trying again in 3600 s"
    stop.set()
    with pytest.raises(StoppedError):
        progress.sleep(3600)


def test_pull_and_open(machine: Machine, hub: Hub, tmp_path: Path) -> None:
    machine.write("models/aaa.gguf", write_model(tmp_path / "a", types="F32", width=64, ffn=64).read_bytes())
    content = write_model(tmp_path / "b.gguf", types="Q8_0", width=64, ffn=64).read_bytes()
    hub.add(NAME, Tiny_Q8_0__gguf=content)

    async def script(app: PickerApp, pilot: Pilot[None]) -> None:
        await complete(app, pilot)
        assert app.pulling == ""
        await pilot.press(*NAME, "enter")
        await until(pilot, lambda: "Enter opens it" in app.pulling)
        assert app.pulling == "Tiny_Q8_0 is here, Enter opens it"
        assert app.pointed == "Tiny_Q8_0"
        assert not app.picker.query_one(Button).display
        await pilot.press("enter")
        await pilot.pause()

    assert play(script).chosen == ["Tiny_Q8_0"]


@pytest.mark.parametrize("by", ["escape", "button"])
def test_stop_and_go_on(machine: Machine, hub: Hub, by: str) -> None:
    hub.add(NAME, m_Q8_0__gguf=FILE)
    hub.faults = [STAYS_OPEN]

    async def script(app: PickerApp, pilot: Pilot[None]) -> None:
        await enter(app, pilot, NAME)
        await some_of_it(app, pilot)
        assert 0 < (app.picker.query_one(ProgressBar).percentage or 0) < 1
        await pilot.press("escape") if by == "escape" else await pilot.click(Button)
        assert app.pulling == f"{NAME}: stopping" or "stopped" in app.pulling
        await until(pilot, lambda: "stopped; the downloaded part is kept" in app.pulling)
        assert app.chosen == []
        (part,) = parts(machine)
        assert FILE.startswith(part.read_bytes())
        kept = part.stat().st_size
        assert kept > 0
        await until(pilot, lambda: f"{NAME}:Q8_0" in app.text)
        await enter(app, pilot, "name q8_0")
        await until(pilot, lambda: app.pulling.startswith("m_Q8_0 is here, but cannot be opened: "))
        assert app.pointed == "m_Q8_0"
        assert hub.files_asked[-1].range == f"bytes={kept}-"
        assert (machine.own / "models" / NAME / "m_Q8_0.gguf").read_bytes() == FILE

    play(script)


def test_closing_stops_the_pull(machine: Machine, hub: Hub) -> None:
    hub.add(NAME, m__gguf=FILE)
    hub.faults = [STAYS_OPEN]
    pulls = []

    async def script(app: PickerApp, pilot: Pilot[None]) -> None:
        await enter(app, pilot, NAME)
        await some_of_it(app, pilot)
        pulls.append(app.picker.query_one(PullStatus).pull)
        await pilot.press("escape", "escape")
        await pilot.pause()
        assert app.chosen == [None]
        await until(pilot, lambda: not list(machine.own.rglob("*.lock")))

    play(script)
    assert [pull and pull.stopping for pull in pulls] == [True]
    assert len(parts(machine)) == 1


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("gated", "is gated: ask for access at"),
        ("missing", "does not exist on"),
        ("hash", "have another hash than the hub lists; they were removed"),
        ("offline", "HF_HUB_OFFLINE forbids the network"),
        ("network", "failed"),
        ("nonsense", "is not the name of a repository; give ORG/NAME"),
    ],
)
def test_what_goes_wrong_is_a_line(
    machine: Machine, hub: Hub, monkeypatch: pytest.MonkeyPatch, fault: str, words: str
) -> None:
    hub.add(NAME, m__gguf=FILE)
    typed = {"missing": "org/none", "nonsense": "a/b/c"}.get(fault, NAME)
    if fault == "gated":
        hub.faults = [sends(b"", 403, X_Error_Code="GatedRepo")]
    elif fault == "hash":
        hub.faults = [lambda handler, content: handler.send_file(bytes(len(content)))]
    elif fault == "offline":
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    elif fault == "network":
        monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
        monkeypatch.setattr(PullProgress, "sleep", lambda progress, seconds: None)

    async def script(app: PickerApp, pilot: Pilot[None]) -> None:
        await enter(app, pilot, typed)
        await until(pilot, lambda: app.picker.query_one(PullStatus).pull is None)
        assert words in app.pulling
        assert "\n" not in app.pulling
        await pilot.press("escape")

    assert play(script).chosen == [None]


def test_a_full_disk_is_reported(machine: Machine, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.add(NAME, m__gguf=FILE)
    monkeypatch.setattr("edgellm.hub.download.shutil.disk_usage", lambda path: type("Usage", (), {"free": 1000}))

    async def script(app: PickerApp, pilot: Pilot[None]) -> None:
        await enter(app, pilot, NAME)
        await until(pilot, lambda: app.picker.query_one(PullStatus).pull is None)
        assert "200 kB are missing, but 1 kB are free" in app.pulling

    play(script)


def test_one_at_a_time_and_the_note_of_an_architecture(machine: Machine, hub: Hub) -> None:
    """A model that cannot be opened here is told while it comes."""
    hub.add(NAME, m__gguf=FILE)
    hub.architecture = "jamba\x1b"
    hub.faults = [STAYS_OPEN]

    async def script(app: PickerApp, pilot: Pilot[None]) -> None:
        await enter(app, pilot, NAME)
        await some_of_it(app, pilot)
        assert app.pulling.endswith("note: architecture jamba\\x1b cannot run here")
        await pilot.press("enter")
        await pilot.pause()
        assert len(hub.files_asked) == 1
        await pilot.press("escape")
        await until(pilot, lambda: app.picker.query_one(PullStatus).pull is None)

    play(script)
