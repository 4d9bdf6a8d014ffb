"""Weights that a checkpoint holds quantized, read as rows of floats. One method of quantization is one file.

weight.py       `QuantizedWeight`: a tensor that several stored ones hold together, and how to read its rows
settings.py     `Settings`: what config.json, or a file beside it, says of the quantization
methods.py      the methods that are read, and which of them a checkpoint has
refused.py      those that are not read
fp8.py          FP8; fp8_numbers.py decodes its numbers
mxfp4.py        experts in MXFP4

A method is a `Method`: whether settings are of it, and a function that checks them and returns a `Finder`. The finder
takes the stored tensors that belong together, and gives the tensor that they hold, under the name and with the shape
that it has in a checkpoint of floats.
"""

from converters.checkpoint.quantized.methods import find_quantized, finders_of
from converters.checkpoint.quantized.settings import Settings, read_settings, settings_of
from converters.checkpoint.quantized.weight import Finder, Grid, QuantizedWeight

__all__ = [
    "Finder",
    "Grid",
    "QuantizedWeight",
    "Settings",
    "find_quantized",
    "finders_of",
    "read_settings",
    "settings_of",
]
