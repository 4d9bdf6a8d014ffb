"""The grids that weights are chosen from: how they are held, and that their points are those of the gguf package."""

import gguf
import numpy as np
import pytest

from kquants.formats.grids.grid import Grid
from kquants.formats.grids.iq1 import IQ1
from kquants.formats.grids.iq2_s import IQ2_S
from kquants.formats.grids.iq2_xs import IQ2_XS
from kquants.formats.grids.iq2_xxs import IQ2_XXS
from kquants.formats.grids.iq3_s import IQ3_S
from kquants.formats.grids.iq3_xxs import IQ3_XXS

GRIDS = {"IQ3_S": IQ3_S, "IQ3_XXS": IQ3_XXS, "IQ2_S": IQ2_S, "IQ2_XS": IQ2_XS, "IQ2_XXS": IQ2_XXS, "IQ1_S": IQ1}


@pytest.mark.parametrize("name", GRIDS)
def test_points_are_those_of_gguf(name: str) -> None:
    theirs = getattr(gguf.quants, name)
    theirs.init_grid()
    assert np.array_equal(np.array(GRIDS[name].magnitudes), theirs.grid.reshape(theirs.grid_shape))


def test_points_are_numbers_whose_gaps_are_letters() -> None:
    grid = Grid(levels=(3, 5, 9), weights=4, gaps="BC+B")  # 0, 0 + 2, 2 + 63 + 1 = 2·27 + 1·9 + 1·3
    assert grid.numbers == (0, 2, 66)
    assert grid.magnitudes == ((3, 3, 3, 3), (9, 3, 3, 3), (3, 5, 5, 9))
