"""Names of all kernels, and the module that registers each. Imports no compiler."""

from kquants import ENCODED_FORMATS, FLOAT_FORMATS, FORMATS, QUANTIZED_FORMATS
from kquants.kv_layout import PAGE_SIZES


def _each(*operations: str, of: tuple[str, ...]) -> list[str]:
    return [f"{operation}_{name.lower()}" for operation in operations for name in of]


_ENCODED = [name.lower() for name in ENCODED_FORMATS if name not in FLOAT_FORMATS]
_NORMS, _HEAD_NORMS = ["rms_norm", "layer_norm"], ["norm_heads", "layer_norm_heads"]

KERNELS_BY_MODULE: dict[str, list[str]] = {
    "kquants.activations.activations": ["swiglu", "geglu", "geglu_erf", "relu2", "xielu", "clamped_swiglu"],
    "kquants.activations.gates": ["sigmoid_gate", "scale_by_sigmoid", "softplus_gate", "soft_cap"],
    "kquants.activations.norms": [f"{part}{norm}" for norm in _NORMS for part in ("", "add_")] + _HEAD_NORMS,
    "kquants.activations.residuals": ["keep_outputs", "add_bias", "add_scaled"],
    "kquants.activations.row_quantizer": ["quantize"],
    "kquants.activations.square_sums": ["square_sums"],
    "kquants.activations.sparsity": ["top_activations"],
    "kquants.activations.streams": ["match_magnitude", "predict_streams", "correct_streams"],
    "kquants.attention.attention": ["attention_merge", *_each("attention", "attention_latent", of=(*PAGE_SIZES,))],
    "kquants.attention.latent_heads": ["split_heads", "head_groups", "join_heads"],
    "kquants.attention.pages": _each("rope_store", of=(*PAGE_SIZES,)),
    **{f"kquants.experts.{name}": [name] for name in ("route", "plan", "read_ahead", "gather", "combine")},
    **{
        f"kquants.recurrent.{name}": [name]
        for name in ("conv", "delta_inputs", "delta_rule", "gated_norm", "selective_scan", "split_gate")
    },
    "kquants.recurrent.channel_delta": ["channel_delta_inputs", "channel_delta_rule"],
    "kquants.recurrent.mamba": ["mamba_inputs", "mamba"],
    "kquants.microbenchmark": ["read_sum", "int8_peak"],
    "kquants.encoders.floats": _each("encode", of=FLOAT_FORMATS),
    **{f"kquants.encoders.{name}": [f"encode_{name}"] for name in _ENCODED},
    "kquants.encoders.round_columns": ["round_columns"],
    "kquants.formats.rows": _each("embed", "dequantize", of=FORMATS),
    "kquants.matmul.floats": _each("matmul", of=FLOAT_FORMATS),
    "kquants.matmul.quantized": _each("matmul", of=QUANTIZED_FORMATS),
    "kquants.threadpool.jobs": ["submit_job", "run_caller", "run_worker"],
}
"""The kernels that a module registers when it is imported, by the module's name."""

MODULE_BY_KERNEL = {kernel: module for module, kernels in KERNELS_BY_MODULE.items() for kernel in kernels}
"""The module that registers each kernel."""

COMPILER = "kquants.compiler.compile"
"""The module that compiles them."""
