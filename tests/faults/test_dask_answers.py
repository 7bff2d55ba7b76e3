"""What Dask's workers answer is what this process answers, to the byte, whoever dies on the way."""

import re
from concurrent.futures import BrokenExecutor
from pathlib import Path

import pytest
from dask_processes import Cluster
from fault_tasks import square

from planner.cli import main
from planner.errors import InputError
from planner.files import load_run
from planner.runs.batches.choosing import executor_of, open_pool
from planner.runs.batches.dask_engine.executor import DaskExecutor, open_dask_pool
from planner.runs.batches.jobs import Job, Outcome, with_content
from planner.runs.batches.local import SerialExecutor
from planner.runs.batches.running import run_job

pytestmark = pytest.mark.usefixtures("all_draws")  # as workers have, processes of their own

SMALL = """\
name: small
model: deepseek-v3
workload: normal-500-2000
inventory: {H200: 16}
ranges: {width: 4096}
serving: split
"""
SEARCHED = """\
name: searched
model: deepseek-v3
workload: normal-500-2000
inventory: {H200: 32, H20: 32}
ranges: {width: 2048}
routing: {form: table}
search: {method: random, iterations: 2, batch_size: 2, min_island_size: 12}
"""
MEASURED = re.compile(r', "(?:generation|evaluation)_cpu_s": [-+.e0-9]+')


def untimed(run: Path) -> dict[str, bytes]:
    """Every file of a run (path below it -> content), plan.json without the CPU-seconds that were measured."""
    files = {path.relative_to(run).as_posix(): path.read_bytes() for path in run.rglob("*") if path.is_file()}
    return files | {"plan.json": MEASURED.sub("", files["plan.json"].decode()).encode()}


def jobs_in(folder: Path) -> list[Job]:
    """A search, a solved plan, one that is infeasible, and a scenario that is none."""
    texts = {
        "searched": SEARCHED,
        "small": SMALL,
        "poor": SMALL.replace("H200: 16", "H200: 2"),
        "bad": SMALL.replace("16", "-1"),
    }
    for name, text in texts.items():
        Path(f"{name}.yaml").write_text(text)
    jobs = [Job(scenario=Path(f"{name}.yaml"), folder=folder / name) for name in texts]
    return [with_content(job) for job in jobs[:3]] + jobs[3:]


def by_name(outcomes: list[Outcome]) -> dict[str, tuple[int, str, float | None]]:
    return {Path(o.folder).name: (o.status, o.message, o.throughput_rps) for o in outcomes}


def test_jobs_on_dask_are_those_of_this_process(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Paths relative to the current folder, as a user gives them."""
    monkeypatch.chdir(tmp_path)
    here = list(SerialExecutor().run(jobs_in(Path("here"))))
    there = list(DaskExecutor(settings=cluster.settings()).run(jobs_in(Path("there"))))
    assert {status for status, _, _ in by_name(there).values()} == {0, 2, 3}
    assert by_name(there) == by_name(here)
    assert sorted(path.name for path in Path("there").iterdir()) == ["searched", "small"]
    for name in ("searched", "small"):
        assert untimed(Path("there", name)) == untimed(Path("here", name))
    assert list(tmp_path.glob(".planner-probe*")) == []


def test_layouts_evaluated_on_dask_make_the_same_plan(cluster: Cluster, tmp_path: Path) -> None:
    scenario = tmp_path / "searched.yaml"
    scenario.write_text(SEARCHED)
    with open_dask_pool(cluster.settings()) as pool:
        there = run_job(Job(scenario=scenario, folder=tmp_path / "there"), pool=pool)
        again = list(pool.run(square, [(number,) for number in range(5)]))
    here = run_job(Job(scenario=scenario, folder=tmp_path / "here"))
    assert there.throughput_rps == here.throughput_rps
    assert untimed(tmp_path / "there") == untimed(tmp_path / "here")
    assert again == [0, 1, 4, 9, 16]


def test_answers_come_in_order_and_deaths_in_their_place(cluster: Cluster) -> None:
    """A task that kills whoever works on it is tried by two processes of one worker, and by two of another."""
    with open_dask_pool(cluster.settings()) as pool:
        answers = list(pool.run(square, [(0,), (1, "kill"), (2,), (3,)]))
        assert isinstance(answers[1], BrokenExecutor)
        assert "ended without an answer" in str(answers[1])
        assert [answers[0], *answers[2:]] == [0, 4, 9]
        with pytest.raises(ValueError, match="made up"):
            list(pool.run(square, [(0,), (1, "raise"), (2,)]))
        answers = pool.run(square, [(number,) for number in range(20)])
        assert next(answers) == 0
        answers.close()
        assert list(pool.run(square, [(7,)])) == [49]


@pytest.mark.parametrize("tasks", [40, pytest.param(1000, marks=pytest.mark.study)])
def test_many_small_tasks_are_each_answered_once(cluster: Cluster, tmp_path: Path, tasks: int) -> None:
    with open_dask_pool(cluster.settings()) as pool:
        assert list(pool.run(square, [(number,) for number in range(tasks)])) == [k * k for k in range(tasks)]


@pytest.mark.study
def test_a_thousand_jobs_on_two_workers(cluster: Cluster, tmp_path: Path) -> None:
    scenario = tmp_path / "small.yaml"
    scenario.write_text(SMALL)
    jobs = [Job(scenario=scenario, folder=tmp_path / f"runs/{seed}", seed=seed, figures=False) for seed in range(1000)]
    outcomes = list(DaskExecutor(settings=cluster.settings()).run(jobs))
    assert sorted(o.folder for o in outcomes) == sorted(str(job.folder) for job in jobs)
    assert {outcome.status for outcome in outcomes} == {0}
    assert len({(run / "routing.csv").read_bytes() for run in (tmp_path / "runs").iterdir()}) == 1


def test_commands_take_the_executor(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A sweep, and a search for a frontier: with Dask what comes without it."""
    monkeypatch.chdir(tmp_path)
    Path("small.yaml").write_text(SMALL)
    smaller = SEARCHED.replace("min_island_size: 12", "min_island_size: 8")
    Path("frontier.yaml").write_text(f"{smaller}objective: {{kind: pareto, goals: [rate, price]}}\n")

    def planner(line: str) -> str:
        monkeypatch.setattr("sys.argv", ["planner", *line.split()])
        with pytest.raises(SystemExit) as exit_info:
            main()
        assert not exit_info.value.code
        return capsys.readouterr().out

    dask = f"--executor dask --scheduler {cluster.address}"
    for where, options in (("there", dask), ("here", "--executor serial")):
        planner(f"plan frontier.yaml --out {where}/one --quiet {options}")
        planner(f"sweep small.yaml --set inventory.H200=16 --out {where}/sweep --quiet {options}")
    runs = {path.parent.relative_to("there") for path in Path("there").rglob("plan.json")}
    assert len(runs) == 2
    for run in runs:
        assert untimed("there" / run) == untimed("here" / run)
    assert len(load_run(Path("there/one")).search.frontier) > 1


def test_executors_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [type(executor_of(name, workers=1)).__name__ for name in ("local", "serial", "dask")] == [
        "LocalExecutor",
        "SerialExecutor",
        "DaskExecutor",
    ]
    with pytest.raises(InputError, match="one of local, serial, dask, got 'ray'"):
        executor_of("ray", workers=1)
    with pytest.raises(InputError, match="must come with --executor dask"):
        executor_of("local", workers=1, scheduler="tcp://127.0.0.1:8786")
    with pytest.raises(InputError, match="at least 1, got 0"):
        executor_of("dask", workers=0)
    monkeypatch.setattr("planner.runs.batches.choosing.find_spec", lambda _: None)
    with pytest.raises(InputError, match="not installed") as error, open_pool("dask", workers=1):
        pytest.fail("opened without Dask")
    assert 'pip install "llm-fleet-planner[dask]"' in error.value.hint
