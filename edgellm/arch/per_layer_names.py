"""Names and shapes of the tensors that Gemma 3n and Gemma 4 have beside those of other transformers."""

from edgellm.arch.tensor_names import TensorFacts

PER_LAYER_INPUT_TENSORS = (
    TensorFacts("inp_gate", "per_layer_input_gate", None, ("per_layer_width", "width")),
    TensorFacts("proj", "per_layer_projection", None, ("width", "per_layer_width")),
    TensorFacts("post_norm", "post_per_layer_input_norm", None, ("width",)),
)
"""Tensors of each layer of models with per-layer embeddings."""

PER_LAYER_TABLE = TensorFacts("per_layer_token_embd", "embed_tokens_per_layer", None, ("vocab", "per_layer_total"))
PER_LAYER_PROJECTION = TensorFacts(
    "per_layer_model_proj", "per_layer_model_projection", None, ("per_layer_total", "width")
)
PER_LAYER_NORM = TensorFacts("per_layer_proj_norm", "per_layer_projection_norm", None, ("per_layer_width",))
PER_LAYER_TENSORS = (PER_LAYER_TABLE, PER_LAYER_PROJECTION, PER_LAYER_NORM)
"""Tensors outside of layers of models with per-layer embeddings."""

LAUREL_RANK, STREAMS = 64, 4
"""The rank of the learned augmented residual, and the streams of alternating updates: the same in all Gemma 3n."""

LAUREL_TENSORS = (
    TensorFacts("laurel_l", "laurel.linear_left", None, (LAUREL_RANK, "width")),
    TensorFacts("laurel_r", "laurel.linear_right", None, ("width", LAUREL_RANK)),
    TensorFacts("laurel_post_norm", "laurel.post_laurel_norm", None, ("width",)),
)
ALTUP_TENSORS = (
    TensorFacts("altup_router", "altup.modality_router", None, (STREAMS, "width")),
    TensorFacts("altup_router_norm", "altup.router_norm", None, ("width",)),
    TensorFacts("altup_predict_coef", "altup.prediction_coefs", None, (STREAMS**2, STREAMS)),
    TensorFacts("altup_correct_coef", "altup.correction_coefs", None, (STREAMS, STREAMS)),
    TensorFacts("altup_correct_scale", "altup.correct_output_scale", None, ("width",)),
)
"""Tensors of each layer of Gemma 3n: a learned augmented residual, and alternating updates."""

STREAM_PROJECTIONS = TensorFacts("altup_proj", "altup_projections.*", None, (STREAMS - 1, "width", "width"))
STREAM_UNEMBEDDINGS = TensorFacts(
    "altup_unembd_proj", "altup_unembed_projections.*", None, (STREAMS - 1, "width", "width")
)
"""Tensors outside of layers of models with alternating updates: a matrix for each stream but the first."""
