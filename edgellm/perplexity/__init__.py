"""Perplexity of a model on a text, and its KL divergence from a reference model.

    from edgellm.perplexity import compare, perplexity
    with Model.open("q4.gguf") as model, Model.open("f16.gguf") as reference:
        print(perplexity(model, text).perplexity, compare(model, reference, text).kl)

evaluate  the two functions, their results and standard errors
windows   the windows of a text, and the logits of the positions that are scored
metrics   negative log-likelihood and KL divergence from rows of logits
"""

from edgellm.perplexity.evaluate import Comparison, Perplexity, compare, perplexity

__all__ = ["Comparison", "Perplexity", "compare", "perplexity"]
