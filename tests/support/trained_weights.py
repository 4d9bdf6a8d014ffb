"""The weights of a trained checkpoint."""

import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


def trained(path: Path) -> list[tuple[str, NDArray[np.float32]]]:
    """The matrices of a file of BF16 safetensors, read by its layout: a length, a header in JSON, the data."""
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    tensors = []
    for name, entry in header.items():
        if len(entry.get("shape", ())) == 2:
            first, last = (start + offset for offset in entry["data_offsets"])
            halves = np.frombuffer(data[first:last], np.uint16).astype(np.uint32)
            tensors.append((name, (halves << 16).view(np.float32).reshape(entry["shape"])))
    return tensors
