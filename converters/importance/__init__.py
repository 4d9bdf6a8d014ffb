"""Importance matrices: which columns of each tensor matter, from the mean squares of what they are multiplied by.

    from edgellm import imatrix, quantize
    imatrix("model-f16.gguf", text, "model.imatrix.gguf")
    quantize("model-f16.gguf", "model.gguf", "Q4_K_M", imatrix="model.imatrix.gguf")

collect   `imatrix`: a model reads a text, and the sums go to a file now and then
sums      the sums so far, what they are of, and their file
experts   experts that saw too few tokens
apply     the importance of the columns of each tensor of a conversion
"""
