"""`python -m support.kept_arm_assembly FEATURES FOLDER KERNEL…`: what `support.arm_assembly` writes, from the kernel
cache where an earlier run left it there.

A process of its own must run this: it pretends for good.
"""

import hashlib
import os
import sys
import zlib
from pathlib import Path

from kquants.compiler.cache import KernelCache, open_cache
from kquants.compiler.fingerprint import fingerprint, kernel_fingerprint
from support import arm_assembly


def _file_name(name: str, cache: KernelCache) -> str:
    """A name for what the assembly depends on; by its suffix, the cache evicts it as it does kernels."""
    digest = hashlib.sha256((fingerprint() if name == "dot4" else kernel_fingerprint(name, cache)).encode())
    for source in ("arm_assembly.py", "byte_dots.py"):
        digest.update((Path(__file__).parent / source).read_bytes())
    return f"assembly-{name}-{digest.hexdigest()[:20]}.o"


def main(features: str, folder: Path, names: list[str]) -> None:
    arm_assembly.pretend(features)  # fingerprints are those of this CPU
    with open_cache(Path(os.environ["EDGELLM_CACHE"])) as cache:
        assert cache, "others may write to the cache folder"
        files = {name: _file_name(name, cache) for name in names}
        kept = {name: code for name, file in files.items() if (code := cache.read(file)) is not None}
        for name, code in kept.items():
            (folder / f"{name}.s").write_bytes(zlib.decompress(code))
        if missing := [name for name in names if name not in kept]:
            arm_assembly.main(features, folder, missing)
        for name in missing:
            cache.write(files[name], zlib.compress((folder / f"{name}.s").read_bytes()))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
