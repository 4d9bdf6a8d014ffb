"""Floor 2: models from a hub, the one of Hugging Face or another that speaks its routes (HF_ENDPOINT).

`huggingface_hub` finds the user's token. What it asks a hub it reads without bounds, whatever comes, so requests go
through wire.py; its `hf_hub_download` begins anew after every interruption of the process, and compares no hash of what
came, so files come by transfer.py.
"""

from edgellm.hub.checkpoint import fetch_checkpoint
from edgellm.hub.client import Hub, is_offline
from edgellm.hub.listing import RemoteFile, Repository
from edgellm.hub.observer import DownloadObserver
from edgellm.hub.progress import PullProgress, StoppedError
from edgellm.hub.quant_selection import GGUFChoice, gguf_choices, select_gguf
from edgellm.hub.rate import DownloadRate
from edgellm.hub.reference import Reference, parse_reference
from edgellm.hub.resolve import FetchedModel, fetch_model
from edgellm.hub.verify import find_in_hf_cache, find_pulled, pull

__all__ = [
    "DownloadObserver",
    "DownloadRate",
    "FetchedModel",
    "GGUFChoice",
    "Hub",
    "PullProgress",
    "Reference",
    "RemoteFile",
    "Repository",
    "StoppedError",
    "fetch_checkpoint",
    "fetch_model",
    "find_in_hf_cache",
    "find_pulled",
    "gguf_choices",
    "is_offline",
    "parse_reference",
    "pull",
    "select_gguf",
]
