"""Weights that a checkpoint holds quantized, read as rows of floats. One method of quantization is one file.

weight.py       `QuantizedWeight`: a tensor that several stored ones hold together, and how to read its rows
summary.py      how the weights of a checkpoint are quantized, in words
settings.py     `Settings`: what config.json, or a file beside it, says of the quantization
methods.py      the methods that are read, and which of them a checkpoint has
refused.py      those that are not read

gptq.py         GPTQ
awq.py          AWQ; awq_gemv.py, its version that is stored by rows
bitsandbytes.py integers of 8 bits; bitsandbytes_4bit.py, NF4 and FP4
fp8.py          FP8; fp8_numbers.py decodes its numbers
mxfp4.py        experts in MXFP4; mxfp4_packed.py, matrices of compressed-tensors; e2m1.py, their floats of 4 bits
nvfp4.py        NVFP4
modelopt.py     ModelOpt: FP8 and NVFP4
compressed_tensors.py   compressed-tensors: all of these, and the integers of packed_integers.py

parts.py        finds and checks the stored tensors of a weight
small.py        reads small tensors whole, and checks for NaN
words.py        unpacks integers of a few bits from words
blocks.py       blocks of GGUF that hold such rows exactly
grouped.py      rows of matrices that are stored by columns, with scales and zero points of groups of columns
scaled_integers.py   rows of matrices of integers that are stored by rows
panels.py       keeps parts of such matrices in memory

A method is a `Method`: whether settings are of it, and a function that checks them and returns a `Finder`. The finder
takes the stored tensors that belong together, and gives the tensor that they hold, under the name and with the shape
that it has in a checkpoint of floats.
"""

from converters.checkpoint.quantized.methods import find_quantized, finders_of
from converters.checkpoint.quantized.settings import Settings, read_settings, settings_of
from converters.checkpoint.quantized.weight import Finder, Precision, QuantizedWeight

__all__ = [
    "Finder",
    "Precision",
    "QuantizedWeight",
    "Settings",
    "find_quantized",
    "finders_of",
    "read_settings",
    "settings_of",
]
