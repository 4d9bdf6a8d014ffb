"""The grid of IQ3_XXS: 256 points of 4 weights (ggml: iq3xxs_grid)."""

from kquants.formats.grids.grid import Grid

_LEVELS = (4, 12, 20, 28, 36, 44, 52, 62)

IQ3_XXS = Grid(
    _LEVELS,
    weights=4,
    gaps=(
        "BCCFCEBCHJZCECFCHEDCHLMICCFHCHCEKGOEGBCLjTUFLMCEGTQzXUECVOQCFCHCFCCLBYCHHCvCFCHHiGCOJNQLEjoESTM+OOgCHCFCEDJfCCDC"
        "HHbEBICHGBCNBNUHEsEhOYUKb+GCLXcHCHCVNFGCOJLCbCFNVQPS9PTGGMbfSVoVULOCME+OUPBQGReflLhOV+ODCOyXXIGQXfOgIpdLEjIX+QsO"
        "yQCOdgelkG+HhlxoOyCCBSQsKqbFWNOVhQfCS+F"
    ),
)
