"""The grid of IQ2_XXS: 256 points of 8 weights (ggml: iq2xxs_grid)."""

from kquants.formats.grids.grid import IQ2_LEVELS, Grid

IQ2_XXS = Grid(
    IQ2_LEVELS,
    weights=8,
    gaps=(
        "BCCCCCCGCECCCGGECGCGMICGEOeMMCSkaCGKCGCEMKCGMGCEMOUCKYCSeSGECGMECGCWYY4K+HCGKISMGEOGMSIKwKyGMEMUqgiO+FCGScaE+Fus"
        "CGWQICyIwC+RCGSOocU+hYMw++A0CGGECGGIEKCGSScIEYIYIKeGMkQWK8+TCGSEyqEK4gSGEGCkGYau+H+RCY+LmqKGg88+PGSYeo4ekE+XCu++"
        "I+++ZCGUccMM+B+JCGEOSkgiWUSm+T+Z+LGMGuWo6yUK+Z++2s++UiWe+L+h++++Mw"
    ),
)
