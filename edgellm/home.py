"""Where edgellm keeps what it keeps."""

import os
from pathlib import Path

import platformdirs


def cache_folder() -> Path:
    """Compiled kernels: EDGELLM_CACHE, or `cache` in EDGELLM_HOME, or the user's cache folder."""
    if chosen := os.environ.get("EDGELLM_CACHE"):
        return Path(chosen)
    if home := os.environ.get("EDGELLM_HOME"):
        return Path(home) / "cache"
    return platformdirs.user_cache_path("edgellm")
