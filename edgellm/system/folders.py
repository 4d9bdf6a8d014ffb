"""The folders and files that edgellm keeps."""

import os
from pathlib import Path

import platformdirs


def expand_path(folder: str) -> Path:
    """A path from the environment with `~` and variables expanded, which a shell does not do within quotes."""
    return Path(os.path.expandvars(os.path.expanduser(folder)))  # noqa: PTH111 (never raises)


def cache_folder() -> Path:
    """Compiled kernels: EDGELLM_CACHE, or `cache` in EDGELLM_HOME, or the user's cache folder."""
    if chosen := os.environ.get("EDGELLM_CACHE"):
        return expand_path(chosen)
    return _cache()


def machine_profile_file() -> Path:
    """The measured bandwidth of this machine: in `cache` in EDGELLM_HOME, or in the user's cache folder."""
    return _cache() / "speeds.json"


def _cache() -> Path:
    if home := os.environ.get("EDGELLM_HOME"):
        return expand_path(home) / "cache"
    return platformdirs.user_cache_path("edgellm")


def models_folder() -> Path:
    """Pulled models: `models` in EDGELLM_HOME, or in the user's data folder."""
    return _data() / "models"


def chats_file() -> Path:
    """The chats: `chats.db` in EDGELLM_HOME, or in the user's data folder."""
    return _data() / "chats.db"


def log_file() -> Path:
    """What libraries print while the chat runs: `chat.log` in EDGELLM_HOME, or in the user's data folder."""
    return _data() / "chat.log"


def config_file() -> Path:
    """The user's configuration: `config.toml` in EDGELLM_HOME, or in the user's data folder."""
    return _data() / "config.toml"


def _data() -> Path:
    if home := os.environ.get("EDGELLM_HOME"):
        return expand_path(home)
    return platformdirs.user_data_path("edgellm")
