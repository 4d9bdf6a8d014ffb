"""Models on this machine: listing them, and the file that a name means.

local_models   every model with what its header says
names          from the name that a user types to a file
stores         the folders of edgellm, Hugging Face, ollama (see `ollama`) and LM Studio
scan           finds GGUF files below a folder; split_names: names of the parts of a split model
pull_records   what was pulled from a hub, and unfinished pulls; lock: one pull at a time
removal        what `edgellm rm` removes
quant          the quantization in a file's name
"""

from edgellm.models.local_models import LocalModel, each_model, find_models
from edgellm.models.names import canonical_name, display_name, resolve
from edgellm.models.stores import BUILT_IN

__all__ = ["BUILT_IN", "LocalModel", "canonical_name", "display_name", "each_model", "find_models", "resolve"]
