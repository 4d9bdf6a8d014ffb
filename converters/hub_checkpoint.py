"""Checkpoints on a hub."""

import os
from functools import partial

from converters.required_files import required_files
from edgellm.hub.reference import parse_reference


def hub_repository(source: str | os.PathLike[str]) -> str | None:
    """The repository ORG/NAME that `source` names; None for other names and for an existing path."""
    meant = parse_reference(source) if isinstance(source, str) else None
    return None if meant is None or meant.selector or os.path.lexists(source) else meant.repository


def local_folder(source: str | os.PathLike[str], has_target: bool = False) -> str | os.PathLike[str]:
    """The folder of a checkpoint; a repository is downloaded silently. `has_target`: see `required_files`.

    Raises EdgeLLMError.
    """
    repository = hub_repository(source)
    if repository is None:
        return source
    from edgellm.hub import DownloadObserver, fetch_checkpoint  # imports the HTTP client

    return fetch_checkpoint(repository, DownloadObserver(), partial(required_files, has_target=has_target))
