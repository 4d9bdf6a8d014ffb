"""Products of groups of rows, each with a matrix of a stack, have the bits of each matrix's own product."""

import pytest

from kquants import FLOAT_FORMATS, QUANTIZED_FORMATS
from kquants.layout import SLICE_ROWS
from support.grouped import GROUPS, check_groups
from support.kernels import KINDS

# Tiles of 4096 columns are large in all formats, those of 2048 in some: rows of them may come in parts.
CASES = [(name, columns) for name in FLOAT_FORMATS for columns in (64, 172, 1040)]
CASES += [(name, columns) for name in QUANTIZED_FORMATS for columns in (512, 2048, 4096)]
CASES += [(name, 352) for name in QUANTIZED_FORMATS if KINDS[name].block == 32] + [("NVFP4", 320)]


@pytest.mark.parametrize(("name", "columns"), CASES)
def test_groups_of_rows_have_the_bits_of_their_matrices_alone(name: str, columns: int) -> None:
    check_groups(name, columns, GROUPS, (1, 4, 100))


@pytest.mark.parametrize("many", [48, 112, 176])  # what they take of scratch begins where the few have theirs
@pytest.mark.parametrize("name", ["Q8_0", "Q6_K", "MXFP4"])
def test_a_group_of_few_rows_is_the_same_when_many_rows_were_multiplied_in_between(name: str, many: int) -> None:
    check_groups(name, 4096, ((3, 2), (2, many)), (1,))


@pytest.mark.parametrize("name", ["Q8_0", "Q4_K", "BF16"])
def test_slices_of_a_group_begin_at_its_first_row(name: str) -> None:
    check_groups(name, 512, ((1, 3), (2, SLICE_ROWS + 9), (0, 1), (1, 2 * SLICE_ROWS + 20)), (2,))
