"""The grids of the IQ1, IQ2 and IQ3 formats: the points that 4 or 8 weights are chosen from together, one module each.

The points are those of ggml (`ggml-common.h`), found by Iwan Kawrakow. They are held as `grid.Grid` describes.
"""
