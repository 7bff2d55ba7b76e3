"""What these tests save is written without pictures."""

from collections.abc import Iterator

import pytest
from plain_pictures import copied_pictures


@pytest.fixture(autouse=True, scope="module")
def _pictures() -> Iterator[None]:
    with copied_pictures():
        yield
