"""What tells model files apart, without reading gigabytes."""

from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

from edgellm.gguf import GGUFFile

_HEADER_BYTES = 1 << 20
_SAMPLES, _SAMPLE_BYTES = 256, 1 << 14


def fingerprint_of(path: Path) -> str:
    """The fingerprint of the model at a path. Raises ModelFileError."""
    with GGUFFile.open(path) as file:
        return fingerprint(file.paths)


def fingerprint(paths: Iterable[Path]) -> str:
    """Hexadecimal digits for the parts of a model: of their lengths, their beginnings, and samples of all of them."""
    digest = sha256()
    for path in paths:
        nbytes = path.stat().st_size
        digest.update(nbytes.to_bytes(8, "little"))
        with path.open("rb") as file:
            digest.update(file.read(_HEADER_BYTES))
            for number in range(_SAMPLES):
                file.seek(nbytes * number // _SAMPLES)
                digest.update(file.read(_SAMPLE_BYTES))
    return digest.hexdigest()
