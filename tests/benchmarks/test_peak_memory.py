"""The measure of memory itself: what the parent holds does not count, what the child held for a moment does."""

import pytest
from peak_memory import peak_mb

pytestmark = pytest.mark.bench


def test_a_large_parent_does_not_count() -> None:
    small = peak_mb("")
    held = bytearray(400_000_000)
    assert peak_mb("") <= small + 50, len(held)


def test_what_is_let_go_of_counts() -> None:
    assert peak_mb("held = bytearray(b'1' * 300_000_000); del held") >= 290
