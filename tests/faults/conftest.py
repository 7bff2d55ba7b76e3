"""A Dask scheduler and workers as processes of their own."""

import os
from collections.abc import Iterator

import pytest
from dask_processes import LIMIT_S, Cluster, started_cluster
from plain_pictures import unpainted

from planner.report.page import pages
from planner.runs.batches.dask_engine.clusters import open_client


@pytest.fixture(autouse=True)
def _unpainted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs are written without pictures, here and by processes that are started here."""
    monkeypatch.setattr(pages, "figures_of", lambda _plan: ())
    monkeypatch.setenv("PYTHONPATH", unpainted(os.environ)["PYTHONPATH"])


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A scheduler with two workers, which no test ends."""
    with started_cluster(tmp_path_factory.mktemp("cluster")) as started:
        for _ in range(2):
            started.start_worker()
        with open_client(started.address, 1, LIMIT_S) as client:
            client.wait_for_workers(2, timeout=LIMIT_S)
        yield started
