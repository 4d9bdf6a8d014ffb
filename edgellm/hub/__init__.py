"""Models from a hub: Hugging Face, or another with the same routes (HF_ENDPOINT).

reference         what a user types: ORG/NAME:QUANT
resolve           from a reference to a model on this machine
quant_selection   which GGUF file of a repository is meant
verify            pulls a model and verifies it; checkpoint: the files of a checkpoint
download          several files, into the folder of models; transfer: one file
client            requests to the hub; listing: the files of a repository
http              HTTP with limits; http_errors, retry, watchdog: what happens when a request fails
observer          the events of a download; progress, rate: what is shown of them
endpoint, token   from the environment; suggestions: small models to begin with

`huggingface_hub` finds the user's token. Its requests read bodies of any size, so requests go through `http`. Its
`hf_hub_download` starts over after the process was interrupted, and compares no hash, so files go through `transfer`.
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
