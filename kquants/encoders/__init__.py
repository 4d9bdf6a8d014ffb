"""Encoders: rows of float32 to the blocks of each format. The file of a format registers its kernel.

`encode_NAME(source, rows, columns, importance, target, result)`, all int64:

    source      address of float32 [rows, columns], columns a multiple of the format's block
    importance  address of float32 [columns], the weights of the squared errors, or 0
    target      address of the packed rows
    result      address of what `kquants.encoders.results` says

A row's bytes depend on nothing but the row and the importance. `kquants.encode` calls them.
"""
