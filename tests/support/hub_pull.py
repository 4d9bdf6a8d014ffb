"""Pulling for tests: a repository's name, the bytes of a model, and a pull as the command line does it."""

from pathlib import Path

from edgellm import hub as ours
from support.local_models import model

FILE = model(50_000).build()
NAME = "org/name-GGUF"


def pull(wanted: str = "", observer: ours.DownloadObserver | None = None) -> Path:
    client = ours.Hub(observer)
    repository = client.repository(NAME)
    found = ours.gguf_choices(repository)
    return ours.pull(client, repository, ours.select_gguf(NAME, found, wanted, lambda nbytes: True))
