"""Encoders: rows of float32 to the blocks of each format. Importing this package registers their kernels."""
