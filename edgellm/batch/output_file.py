"""The output of a batch: made in one step of its journal, and recognized if it is complete."""

import json
import os
from collections.abc import Iterable
from pathlib import Path

from edgellm.batch.answers import ID_PREFIX
from edgellm.batch.job import Job
from edgellm.errors import EdgeLLMError
from edgellm.fmt import shown_path


def temporary_of(path: Path) -> Path:
    """The file beside an output that becomes it."""
    return path.with_name(f"{path.name}.new")


def write_output(path: Path, answers: Iterable[bytes]) -> None:
    """Write all answers to a file beside `path`, which then replaces it. Raises EdgeLLMError."""
    temporary = temporary_of(path)
    try:
        temporary.unlink(missing_ok=True)  # of a run that was killed; a link there is not followed
        try:
            with temporary.open("xb") as file:
                file.writelines(answer + b"\n" for answer in answers)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        name, problem = shown_path(path), error.strerror or error
        raise EdgeLLMError(f"{name}: {problem}; all answers are kept, and the same command writes them") from None


def failures_of(path: Path, job: Job) -> int | None:
    """How many requests got an error, if a file is the complete output of a job; None if it is anything else."""
    failures = index = 0
    try:
        with path.open("rb") as file:
            for index, line in enumerate(file, 1):
                answer = json.loads(line)
                if index > len(job) or answer["id"] != f"{ID_PREFIX}{job.answer_id(index - 1)}":
                    return None
                failures += answer["response"]["status_code"] != 200
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return failures if index == len(job) else None
