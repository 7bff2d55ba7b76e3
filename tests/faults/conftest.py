"""A Dask scheduler and workers as processes of their own."""

import os

import pytest
from dask_processes import cluster  # noqa: F401  (a fixture)
from plain_pictures import unpainted

from planner.report.plan import page


@pytest.fixture(autouse=True)
def _unpainted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs are written without pictures, here and by processes that are started here."""
    monkeypatch.setattr(page, "figures_of", lambda _plan: ())
    monkeypatch.setenv("PYTHONPATH", unpainted(os.environ)["PYTHONPATH"])
