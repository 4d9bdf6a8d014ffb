"""The quantized formats by name."""

from kquants.formats import (
    iq4_nl,
    iq4_xs,
    mxfp4,
    q1_0,
    q2_0,
    q2_k,
    q3_k,
    q4_0,
    q4_1,
    q4_k,
    q5_0,
    q5_1,
    q5_k,
    q6_k,
    q8_0,
    tq2_0,
)

QUANTIZED = {
    "q8_0": q8_0,
    "q6_k": q6_k,
    "q5_k": q5_k,
    "q4_k": q4_k,
    "q3_k": q3_k,
    "q2_k": q2_k,
    "q5_1": q5_1,
    "q5_0": q5_0,
    "q4_1": q4_1,
    "q4_0": q4_0,
    "iq4_nl": iq4_nl,
    "iq4_xs": iq4_xs,
    "mxfp4": mxfp4,
    "q2_0": q2_0,
    "q1_0": q1_0,
    "tq2_0": tq2_0,
}
