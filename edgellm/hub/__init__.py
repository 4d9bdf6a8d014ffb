"""Floor 2: models from a hub, the one of Hugging Face or another that speaks its routes (HF_ENDPOINT).

`huggingface_hub` finds the user's token. What it asks a hub it reads without bounds, whatever comes, so requests go
through wire.py; its `hf_hub_download` begins anew after every interruption of the process, and compares no hash of what
came, so files come by transfer.py.
"""

from edgellm.hub.checkpoint import checkpoint
from edgellm.hub.choose import Candidate, candidates, choose
from edgellm.hub.client import Hub, is_offline
from edgellm.hub.listing import RemoteFile, Repository
from edgellm.hub.progress import Follower, StoppedError
from edgellm.hub.rate import Pace
from edgellm.hub.reference import Reference, parse_reference
from edgellm.hub.resolve import FetchedModel, fetch_model
from edgellm.hub.verify import find_pulled, in_other_cache, pull
from edgellm.hub.watcher import Watcher

__all__ = [
    "Candidate",
    "FetchedModel",
    "Follower",
    "Hub",
    "Pace",
    "Reference",
    "RemoteFile",
    "Repository",
    "StoppedError",
    "Watcher",
    "candidates",
    "checkpoint",
    "choose",
    "fetch_model",
    "find_pulled",
    "in_other_cache",
    "is_offline",
    "parse_reference",
    "pull",
]
