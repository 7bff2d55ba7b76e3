"""What these tests save is written without pictures; exports replay their router with few requests."""

from collections.abc import Iterator
from unittest.mock import patch

import pytest
from plain_pictures import copied_pictures


@pytest.fixture(autouse=True, scope="module")
def _pictures() -> Iterator[None]:
    with copied_pictures(), patch("planner.runs.replays.router_losses._REQUESTS", 200):
        yield
