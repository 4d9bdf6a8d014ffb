"""A batch that ends at any of its steps on the disk goes on from what is there, and its output has the same bytes."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edgellm.batch.figures import Figures
from edgellm.batch.journal import Journal
from edgellm.batch.run import run
from support.batch_kills import Silent, settings_of

REQUESTS = 5


class TornWrites:
    """The file of a journal that writes each answer in two parts: a kill could leave the first one."""

    def __init__(self, file: Any, stop: Callable[[], None]) -> None:
        self._file, self._stop, self._torn = file, stop, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def write(self, content: Any) -> int:
        self._torn = not self._torn
        written: int = self._file.write(content[: len(content) // 2] if self._torn else content)
        self._stop()
        return written


def test_after_an_end_at_any_step_the_bytes_are_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, states = tmp_path / "run", list[Path]()
    folder.mkdir()
    lines = [json.dumps({"prompt": f"What is {i}?", "max_tokens": 3, "temperature": i % 3}) for i in range(REQUESTS)]
    (folder / "in.jsonl").write_text("\n".join(lines))

    def keep() -> None:
        states.append(tmp_path / f"state {len(states)}")
        shutil.copytree(folder, states[-1])

    def kept_before(owner: Any, name: str) -> None:
        real = getattr(owner, name)

        def kept(*args: Any, **options: Any) -> Any:
            if folder in (args[0].parents if isinstance(args[0], Path) else [folder]):
                keep()
            return real(*args, **options)

        monkeypatch.setattr(owner, name, kept)

    began = Journal.__init__

    def begin(journal: Journal, *args: Any) -> None:
        began(journal, *args)
        keep()
        journal._file = TornWrites(journal._file, keep)  # type: ignore[assignment]

    with monkeypatch.context() as monkeypatch:
        monkeypatch.setattr(Journal, "__init__", begin)
        kept_before(os, "fsync")
        kept_before(Path, "replace")
        kept_before(Path, "unlink")
        run(settings_of(folder / "in.jsonl", folder / "out"), Figures(), Silent())
    assert len(states) > 2 * REQUESTS
    expected = (folder / "out").read_bytes()
    assert [json.loads(line)["custom_id"] for line in expected.splitlines()] == [f"line-{n}" for n in range(1, 6)]

    for state in states:
        figures = Figures()
        run(settings_of(state / "in.jsonl", state / "out"), figures, Silent())
        assert (figures.done, figures.total) == (REQUESTS, REQUESTS)
        assert (state / "out").read_bytes() == expected, state.name
        assert sorted(path.name for path in state.iterdir()) == ["in.jsonl", "out"]
