"""Batches within: how jobs are spread out and ordered, and that what a worker remembers changes nothing."""

from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from planner import files, pipeline
from planner.domain.comparisons import Batch, BatchEntry, BatchIndex, EndedJob, PointState
from planner.errors import InputError
from planner.evaluation import evaluator
from planner.files.plan.batches.jobs_files import load_listed_jobs
from planner.files.scenario.settings import Setting, set_over
from planner.report.comparison.batch import MOST_BARS, MOST_LISTED, batch_page, reasons
from planner.runs.batches import jobs as batch_jobs
from planner.runs.batches import working
from planner.runs.batches.batches import exit_status
from planner.runs.batches.jobs import Job, with_content
from planner.runs.batches.listing import list_jobs
from planner.runs.batches.running import disk_refuses
from planner.workload import summarize

SMALL = """\
name: small
model: deepseek-v3
workload: normal-500-2000
inventory: {H200: 16}
ranges: {width: 4096}
serving: split
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a small scenario."""
    (tmp_path / "small.yaml").write_text(SMALL)
    return tmp_path


def jobs_file(folder: Path, text: str) -> Path:
    """A jobs file there."""
    path = folder / "jobs.yaml"
    path.write_text(text)
    return path


def test_a_job_is_spread_over_the_product_of_its_lists(folder: Path) -> None:
    path = jobs_file(
        folder,
        "defaults: {scenario: small.yaml, set: {slo.ttft_ms: 9000}, seeds: [7]}\n"
        "jobs: [{name: a, grid: {slo.tpot_ms: [50, 60], simplicity: 0..0.2:0.1}, seeds: 3..4:1, "
        "engines: [vllm, sglang]}]",
    )
    jobs = list_jobs(path)
    wanted = list(product(["50", "60"], ["0.0", "0.1", "0.2"], [3, 4], ["vllm", "sglang"]))
    assert [listed.name for listed in jobs] == [f"a-{t}-{s}-s{seed}-{e}" for t, s, seed, e in wanted]
    for listed, (tpot, simplicity, seed, engine) in zip(jobs, wanted, strict=True):
        texts = {setting.text for setting in listed.job.settings}
        assert texts == {"slo.ttft_ms=9000", f"slo.tpot_ms={tpot}", f"simplicity={simplicity}"}
        assert (listed.job.seed, listed.job.engine) == (seed, engine)
    assert len({listed.job.content for listed in jobs}) == len(wanted)
    (only,) = list_jobs(jobs_file(folder, "defaults: {seeds: [7]}\njobs: [{scenario: small.yaml}]"))
    assert (only.name, only.job.seed) == ("small", 7)


def test_values_whose_words_are_alike_are_numbered(folder: Path) -> None:
    path = jobs_file(
        folder, "jobs: [{scenario: small.yaml, name: a, grid: {deploy: [{name: b}, {name: b, queue: c}]}}]"
    )
    names = [listed.name for listed in list_jobs(path)]
    assert names == ["a-namexb", "a-namexb-queuexc"]
    long = ", ".join(f"{{name: b, namespace: {'x' * 40}{k}}}" for k in range(2))
    path = jobs_file(folder, f"jobs: [{{scenario: small.yaml, name: a, grid: {{deploy: [{long}]}}}}]")
    assert [listed.name[-2:] for listed in list_jobs(path)] == ["-1", "-2"]


def test_what_is_set_later_stands_above_also_below_its_key() -> None:
    lower = (Setting("search.method", "auto"), Setting("slo.tpot_ms", 60), Setting("inventory", {"H20": 8}))
    upper = (Setting("search", {"method": "grid"}), Setting("slo.tpot_ms", 40), Setting("inventory.H20", 16))
    assert set_over(lower, upper) == (lower[2], *upper)


def test_no_more_jobs_than_a_folder_takes(folder: Path) -> None:
    path = jobs_file(folder, "jobs: [{scenario: small.yaml, grid: {a: 1..500:1, b: 1..500:1}}]")
    with pytest.raises(InputError, match=r"at most 100,000 jobs, got 250,000"):
        list_jobs(path)
    assert len(load_listed_jobs(path)) == 1


def test_jobs_alike_follow_each_other() -> None:
    jobs = [Job(scenario=None, folder=Path(name), kin=name[0]) for name in ("a1", "b1", "a2", "c1", "b2", "a3")]
    assert [str(job.folder) for job in working._kin_together(jobs)] == ["a1", "a2", "a3", "b1", "b2", "c1"]


def test_kin_have_their_tables_in_common(folder: Path) -> None:
    job = Job(scenario=folder / "small.yaml", folder=folder)
    plain = with_content(job)

    def kin(key: str, value: object) -> str:
        changed = with_content(replace(job, settings=(Setting(key, value),)))
        assert changed.content != plain.content
        return changed.kin

    assert kin("inventory.H20", 8) == kin("slo.tpot_ms", 60) == plain.kin
    assert (
        len({plain.kin, kin("workload", "azure-conv-2023"), kin("model", "deepseek-r1"), kin("ranges.width", 8)}) == 4
    )


def test_a_workload_is_read_once_as_long_as_it_says_the_same(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads, counts = [], []
    read, count = batch_jobs.read_workload, batch_jobs.summarize
    monkeypatch.setattr(batch_jobs, "read_workload", lambda path: reads.append(path) or read(path))
    monkeypatch.setattr(batch_jobs, "summarize", lambda trace: counts.append(trace) or count(trace))
    batch_jobs._read.cache_clear()
    batch_jobs._counted.cache_clear()
    rows = [f"{k * 0.5},{300 + 7 * k},{10 + k % 3}\n" for k in range(40)]
    trace, document = folder / "mine.csv", folder / "mine.yaml"
    trace.write_text("arrival_s,input_tokens,output_tokens\n" + "".join(rows))
    document.write_text("kind: trace\nname: mine\nfile: mine.csv\nto: 9s\n")

    def content(workload: str) -> str:
        job = Job(scenario=folder / "small.yaml", folder=folder, settings=(Setting("workload", f"./{workload}"),))
        scenario = files.load_scenario(folder / "small.yaml", summarize, job.settings)
        assert batch_jobs.load_scenario_again(folder / "small.yaml", job.settings) == scenario
        return with_content(job).content

    first = [content("mine.csv"), content("mine.yaml")]
    assert (len(reads), len(counts)) == (2, 2)
    assert [content("mine.csv"), content("mine.yaml")] == first
    assert (len(reads), len(counts)) == (2, 2)
    trace.write_text("arrival_s,input_tokens,output_tokens\n" + "".join(rows[:15]))  # what the document names, too
    again = [content("mine.csv"), content("mine.yaml")]
    assert len(reads) == 4
    assert not set(again) & set(first)


def test_plans_are_the_same_whatever_was_planned_before(folder: Path) -> None:
    """Prices that are remembered give the plan that prices worked out anew give, to the last digit."""
    levels = Setting("slo", {"ttft_ms": 4000, "tpot_ms": 60, "percentile": 99})
    untimed = Setting("search.timings", False)
    scenario = files.load_scenario(folder / "small.yaml", summarize, (levels, untimed))
    larger = files.load_scenario(folder / "small.yaml", summarize, (Setting("inventory.H20", 16),))
    seeded = replace(scenario, search=replace(scenario.search, seed=5))
    evaluator._remembered.cache_clear()
    anew = files.plan_document(pipeline.plan(seeded))
    evaluator._remembered.cache_clear()
    for before in (scenario, larger, scenario):
        pipeline.plan(before)
    assert files.plan_document(pipeline.plan(seeded)) == anew
    assert evaluator._remembered.cache_info().hits >= 2
    assert evaluator._remembered.cache_info().currsize <= evaluator.MOST_QUESTIONS


def test_a_disk_that_refuses_is_told_from_other_errors() -> None:
    import errno

    assert disk_refuses(OSError(errno.ENOSPC, "full"))
    assert not disk_refuses(OSError(errno.ENOENT, "none"))
    error = ValueError("around it")
    error.__cause__ = error  # as `raise error from error` leaves it
    assert not disk_refuses(error)
    error.__cause__ = OSError(errno.EROFS, "read-only")
    assert disk_refuses(error)


def batch_of(*states: PointState, same: int = 0) -> Batch:
    """Jobs in these states, the last `same` of which ask what the first does; nothing of them was planned really."""
    entries = [
        BatchEntry(name=f"j{k}", scenario="s", settings=(), seed=None, engine="", run=f"r{k}", content=str(k))
        for k in range(len(states))
    ]
    jobs = tuple(
        EndedJob(
            entry=entry,
            state=state,
            status=0,
            message=f"because | of {entry.name}",
            same_as="j0" if k >= len(states) - same else "",
        )
        for k, (entry, state) in enumerate(zip(entries, states, strict=True))
    )
    return Batch(index=BatchIndex(source="jobs.yaml", entries=tuple(entries)), jobs=jobs)


@pytest.mark.parametrize(
    ("states", "status"),
    [
        ("planned planned", 0),
        ("planned infeasible", 3),
        ("infeasible", 3),
        ("infeasible failed", 1),
        ("missing planned", 1),
    ],
)
def test_the_exit_status_says_the_worst(states: str, status: int) -> None:
    assert exit_status(batch_of(*map(PointState, states.split()))) == status


def test_a_page_of_many_jobs_names_the_failures_first_and_not_all() -> None:
    states = [PointState.INFEASIBLE] * 30 + [PointState.FAILED] * 2
    lines = reasons(batch_of(*states))
    assert len(lines) == MOST_LISTED + 1
    assert lines[0].startswith("j30: failed: because \\| of j30")
    assert lines[-1] == "and 12 more"
    assert "2 jobs asked what another had asked, and point to its run." in batch_page(batch_of(*states, same=2)).verdict
    assert batch_page(batch_of(*[PointState.MISSING] * (MOST_BARS + 1))).figures[0].value == str(MOST_BARS + 1)
