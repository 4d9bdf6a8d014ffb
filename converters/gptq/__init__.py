"""GPTQ: weights are rounded column by column, and later columns make good for the errors of earlier ones.

    from edgellm import quantize
    quantize("model-f16.gguf", "model.gguf", "Q4_K_M", gptq="text.txt")

compensation   what a conversion needs for it: the text, a model that reads it, the matrices
inputs         which matrices can be compensated, by what they are multiplied by; the passes over the text
job            reads the text, pass by pass, and writes these matrices
hessians       the sums of xᵀx of their inputs
feedback       from a Hessian to the shares of errors that later columns take
compensate     rows of a matrix to blocks
code_layouts   where codes lie in the blocks of each format, and which values they stand for
"""
