"""Bytes of large files, read without keeping any: what makes conversion need little memory."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgellm.errors import ModelFileError
from edgellm.fmt import printable


def read_bytes(path: Path, offset: int, nbytes: int) -> NDArray[np.uint8]:
    """Bytes offset … offset + nbytes - 1 of a file, in an array of their own. Any thread may call it.

    Read, not mapped: pages of a map count as memory of the process, and where a disk fails or another program cuts
    the file short, reading tells at once. Of pieces as small as a core's cache, reading costs 0.16 s/GB of what the
    system has in memory, and a map 0.09. Raises ModelFileError.
    """
    data = np.empty(nbytes, np.uint8)
    name = printable(str(path), 400)
    try:
        with path.open("rb", buffering=0) as file:
            file.seek(offset)
            rest = data.data
            while rest:
                got = file.readinto(rest)
                if not got:
                    raise ModelFileError(f"{name}: has become shorter since it was opened; download it again")
                rest = rest[got:]
    except OSError as error:
        raise ModelFileError(f"{name}: cannot be read ({error.strerror}); check the disk it is on") from None
    return data
