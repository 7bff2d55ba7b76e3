"""A made-up trace: what was put in comes out, no server holds more than it has, every table says that it is made up."""

import csv
import gzip
import io
from collections import defaultdict
from itertools import pairwise
from statistics import median

import pytest

from planner.studies.asi.synthetic.jobs import draw_trace_jobs, gpus_by_model, with_nights
from planner.studies.asi.synthetic.marginals import (
    ALLOCATED,
    FLEET,
    HP_SHARES,
    JOB_SHARES,
    LEANING,
    MODELS,
    WAITING,
    WARM_UP_DAYS,
)
from planner.studies.asi.synthetic.trace import FILES, README, servers_of_fleet, synthetic_trace
from planner.studies.spot.records import JobClass

DAYS = 5
TOTAL = sum(kind.gpus * kind.servers for kind in FLEET)


def rows_of(packed: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(gzip.decompress(packed).decode())))


@pytest.fixture(scope="module")
def tables() -> dict[str, bytes]:
    return synthetic_trace(1, 0)


def test_models_meet_gpu_types_and_both_keep_their_totals() -> None:
    joint = gpus_by_model()
    for kind in FLEET:
        share = sum(value for (_, gpu), value in joint.items() if gpu == kind.gpu)
        assert share == pytest.approx(kind.gpus * kind.servers / TOTAL, rel=1e-6)
    for model in ("genai", "rec", "dev"):
        wanted = sum(JOB_SHARES[job_type] * shares.get(model, 0) for job_type, shares in MODELS.items())
        assert sum(value for (name, _), value in joint.items() if name == model) == pytest.approx(wanted, rel=1e-6)
    genai = {kind.gpu: joint["genai", kind.gpu] / joint["rec", kind.gpu] for kind in FLEET}
    assert [a for a, b in pairwise(sorted(genai, key=genai.__getitem__)) if LEANING.get(a, 2) > LEANING.get(b, 2)] == []


def test_jobs_ask_for_what_was_put_in() -> None:
    """GPU-hours by job type and priority to 2 points of all GPUs (jobs are large); the published median of sizes."""
    jobs = draw_trace_jobs(20, 3)
    asked: dict[tuple[str, JobClass], float] = defaultdict(float)
    for drawn in jobs:
        held_h = drawn.job.total_gpus * drawn.job.duration_s / 3600
        asked[drawn.job_type, drawn.job.kind] += held_h / (TOTAL * 24 * (20 + WARM_UP_DAYS))
    for job_type, share in JOB_SHARES.items():
        hp = HP_SHARES[job_type]
        assert asked[job_type, JobClass.HP] == pytest.approx(ALLOCATED * share * hp, abs=0.02)
        assert asked[job_type, JobClass.SPOT] == pytest.approx(ALLOCATED * share * (1 - hp) * WAITING, abs=0.02)
    assert median(drawn.job.total_gpus for drawn in jobs if drawn.genai) == 4
    assert {drawn.job.gpu_model for drawn in jobs} == {kind.gpu for kind in FLEET}


def test_lent_at_night_alone() -> None:
    jobs = draw_trace_jobs(2, 1)
    starts_s = {drawn.job.name: drawn.job.submit_s + 5000 for drawn in jobs}
    lending = [job for job in with_nights(jobs, starts_s, 1) if job.standby]
    assert lending
    for job in lending:
        assert all(0 < one.start_s < one.end_s <= job.duration_s for one in job.standby)
        assert all(one.end_s < other.start_s for one, other in pairwise(job.standby))
        hours = [(starts_s[job.name] + at_s) / 3600 % 24 for one in job.standby for at_s in (one.start_s, one.end_s)]
        assert all(hour >= 21.5 or hour <= 10 for hour in hours)


def test_one_seed_one_trace() -> None:
    assert draw_trace_jobs(DAYS, 1) == draw_trace_jobs(DAYS, 1)
    assert draw_trace_jobs(DAYS, 1) != draw_trace_jobs(DAYS, 2)


def test_it_says_everywhere_that_it_is_made_up(tables: dict[str, bytes]) -> None:
    assert set(tables) == set(FILES)
    assert "says nothing new" in tables[README].decode()
    for name in set(FILES) - {README}:
        rows = rows_of(tables[name])
        assert next(iter(rows[0])) == "synthetic"
        assert {row["synthetic"] for row in rows} == {"made-up"}


def test_no_server_holds_more_than_it_has(tables: dict[str, bytes]) -> None:
    """Counted from the rows: guaranteed pods at work and spot pods share a server's GPUs; lent ones count once."""
    work: dict[tuple[str, str], float] = defaultdict(float)
    claimed: dict[tuple[str, str], float] = defaultdict(float)
    for row in rows_of(tables["pod_hourly.csv.gz"]):
        key, hours = (row["server_id"], row["hour"]), float(row["used_gpu_hours"] or 0)
        work[key] += hours * (row["state_public"] == "Running")
        claimed[key] += hours * (row["priority_class"] == "HP")
    gpus = {server.name: server.kind.gpus for server in servers_of_fleet()}
    for sums in (work, claimed):
        assert all(value <= gpus[name] * 1.001 for (name, _), value in sums.items())
    assert sum(work.values()) > 0.8 * 24 * TOTAL
    assert max(value / gpus[name] for (name, _), value in claimed.items()) > 0.99


@pytest.mark.study
def test_the_same_bytes_again(tables: dict[str, bytes]) -> None:
    assert synthetic_trace(1, 0) == tables
