"""Falcon-Mamba's norms of what the scan reads: their epsilon has a key of edgellm, which other files lack."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from support.engine_bits import fresh, opened
from support.families.references import IDS
from support.gguf_parts import GGUFParts
from support.model_file import FamilyFile
from support.oracle import llama_cpp_logits
from support.reference import divergence


def test_without_the_key_the_epsilon_is_that_of_the_other_norms_as_in_llama_cpp(
    family_file: FamilyFile, tmp_path: Path
) -> None:
    source, path = family_file("falcon_mamba"), tmp_path / "m.gguf"
    parts = GGUFParts.read(source)
    others = {key: value for key, value in parts.pairs.items() if not key.endswith("dt_b_c_rms_epsilon")}
    path.write_bytes(replace(parts, pairs=others).build())
    logits = []
    for each in (source, path):
        with opened(each) as engine:
            logits.append(fresh(engine, IDS[:200]).view(np.float32))
    theirs = llama_cpp_logits(path, IDS[:200])
    assert divergence(theirs, logits[1]) <= 1e-9
    assert divergence(theirs, logits[0]) > 1e-5
