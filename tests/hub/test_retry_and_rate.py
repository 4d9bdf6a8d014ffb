"""When a request is retried, and what is shown meanwhile."""

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from edgellm.cli import pull_progress
from edgellm.cli.progress import ProgressLine
from edgellm.errors import EdgeLLMError
from edgellm.hub import DownloadObserver, observer, rate
from edgellm.hub.retry import RetryPolicy, TransientError
from edgellm.hub.watchdog import MIN_BYTES
from edgellm.system.http import retry_after_seconds


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "120"}, 120),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "²"}, None),
        ({"retry-after": "9" * 400}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 -0000"}, None),
        ({"retry-after": "Mon, 01 Jan 99999999999 00:00:00 GMT"}, None),
        ({"ratelimit": '"api";r=0;t=55'}, 55),
        ({"ratelimit": '"api";r=489;t=55'}, None),
        ({"ratelimit": '"api";r=0;t=55', "retry-after": "7"}, 7),
    ],
)
def test_when_the_hub_says_to_try_again(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_seconds(headers) == seconds


def test_a_date_to_try_again_at() -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
    assert 98 <= (retry_after_seconds({"retry-after": later}) or 0) <= 100


def failure(reason: str, retry_after: float | None = None) -> TransientError:
    return TransientError(reason, EdgeLLMError("enough"), retry_after)


def test_retries_end(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(observer, "sleep", slept.append)
    policy = RetryPolicy(DownloadObserver())
    policy.wait(failure("a"))
    policy.wait(failure("b", retry_after=7))
    policy.progressed(MIN_BYTES)
    with pytest.raises(EdgeLLMError, match="enough"):
        for _ in range(9):
            policy.wait(failure("c"))
    assert slept == [1, 7, 1, 2, 4, 8, 16]
    with pytest.raises(EdgeLLMError, match="enough"):
        RetryPolicy(DownloadObserver()).wait(failure("d", retry_after=301))


def test_a_few_bytes_or_the_same_ones_do_not_end_a_row_of_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observer, "sleep", lambda seconds: None)
    for received in ([1_000_000 + n for n in range(100)], [2_000_000, *[1_000_000, 2_000_000] * 50]):
        policy, waits = RetryPolicy(DownloadObserver(), received=1_000_000), 0
        with pytest.raises(EdgeLLMError, match="enough"):
            for nbytes in received:
                policy.progressed(nbytes)
                policy.wait(failure("a"))
                waits += 1
        assert waits == 5


def test_rate_and_time_left(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Bytes of an earlier run do not count for the rate."""
    now = 1000.0
    for module in (rate, pull_progress):
        monkeypatch.setattr(module, "monotonic", lambda: now)
    shown = pull_progress.PullDisplay(ProgressLine())
    shown.starting("org/name: m.gguf", 1_000_000_000)
    shown.progressed(500_000_000, 1_000_000_000, 0)
    for second in range(1, 11):
        now = 1000.0 + second
        shown.progressed(500_000_000 + second * 4_000_000, 1_000_000_000, second * 4_000_000)
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["org/name: m.gguf, 1 GB", "54% of 1 GB · 4 MB/s · 1:55 left"]


def test_the_library_is_loaded_only_to_ask_a_hub() -> None:
    code = "import sys, edgellm.hub, edgellm.cli.pull; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(done.stdout.split()) & {"huggingface_hub", "httpx2", "filelock", "numba"}
