"""A small vocabulary, and guides for it."""

import pytest

from support.guided_walk import Guides, small_tokenizer


@pytest.fixture(scope="session")
def guides(tmp_path_factory: pytest.TempPathFactory) -> Guides:
    return Guides(small_tokenizer(tmp_path_factory.mktemp("vocabulary")))
