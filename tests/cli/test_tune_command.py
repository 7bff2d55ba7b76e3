"""`planner tune`: knobs of a saved plan, on the terminal, as JSON and in files; the tuned plan is an ordinary run."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from command_line import Command

import planner as library
from planner import files, pipeline
from planner.domain import Plan
from planner.errors import EXIT_BAD_INPUT, EXIT_DONE
from planner.evaluation.evaluator import open_evaluator
from planner.files.scenario.scenarios import scenario_from_document
from planner.plans.finishing import finished_plan
from planner.proposing.buckets.proposals import pools_again
from planner.proposing.feasibility import posed
from planner.workload import summarize

QUICK = ("--rounds", "2", "--batch", "3", "--requests", "400", "--goals", "goodput", "--rate", "65")


@cache
def starved() -> Plan:
    """Aggregated servers with a token budget that is too small for the load."""
    document = {
        "name": "starved",
        "model": "llama-3.1-8b",
        "workload": "azure-code-2023",
        "inventory": {"H100": 4},
        "serving": "aggregated",
        "ranges": {"width": 2048},
        "slo": {"ttft_ms": 1000, "tpot_ms": 30, "percentile": 90},
    }
    plan = pipeline.plan(scenario_from_document(document, origin="the tests", base=Path(), summarize=summarize))
    pools = [replace(pool, server=replace(pool.server, tokens_per_step=512)) for pool in plan.outlook.pools]
    with open_evaluator(posed(plan.scenario)) as evaluator:
        return finished_plan(evaluator, pools_again(evaluator, plan, pools))


@pytest.fixture
def run(here: Path) -> Path:
    files.write_run(Path("run"), {"plan.json": files.encode_plan(starved())})
    return here / "run"


def test_a_tuned_plan_is_a_run_that_is_verified_and_exported(planner: Command, run: Path) -> None:
    answer = planner("tune", run, *QUICK, "--out", "tuned", "--json")
    assert answer.status == EXIT_DONE
    assert answer.json["chosen"]
    (gain,) = answer.json["gains"]
    assert gain["low"] >= 0.01
    assert gain["low"] < gain["gain"] < gain["high"]
    assert {path.name for path in Path("tuned").iterdir()} == {"tune.md", "tune.html", "trials.csv", "run"}
    assert len(Path("tuned/trials.csv").read_text().splitlines()) == answer.json["settings_tried"] + 1 == 7
    knob = next(knob for knob in answer.json["knobs"] if knob["knob"].startswith("tokens a step"))
    assert knob["before"] == "512"
    budget = knob["after"].replace(",", "")
    assert f"--max-num-batched-tokens={budget}" in "".join(
        path.read_text() for path in Path("tuned/run/manifests").rglob("*") if path.is_file()
    ).replace(f"--max-num-batched-tokens {budget}", f"--max-num-batched-tokens={budget}")
    assert planner("verify", "tuned/run", "--json").json["differences"] == []
    assert planner("tune", run, *QUICK, "--out", "tuned").status == EXIT_BAD_INPUT  # it is there already


def test_notebooks_have_it_at_hand_and_the_terminal_tells_it(planner: Command, run: Path) -> None:
    plan = library.load_plan(run)
    tuned = plan.tune("lengths", "goodput", rate=1.0, rounds=1, batch=3, requests=100)
    assert not tuned.chosen
    assert tuned.plan is None
    assert len(tuned.trials) == 3
    assert "Nothing to gain" in tuned.summary()
    assert {"before", "after"} <= set(tuned.knobs.columns)
    answer = planner("tune", run, "--trace", "lengths", *QUICK[:-1], "1")
    assert answer.status == EXIT_DONE
    assert "Nothing to gain" in answer.out
    assert "floors and triggers of autoscalers: the plan has none" in answer.out


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--goals", "rent"), "the servers of the plan stay"),
        (("--goals", "ttft,ttft"), "must be some of goodput, ttft, each once"),
        (("--goals", "rate"), "must be some of goodput, ttft, each once"),
        (("--goals", "ttft", "--rate", "-1"), "rate: must be"),
        (("--rounds", "0"), "rounds must be"),
        (("--requests", "3"), "requests must be"),
        (("--trace", "nowhere.csv"), "nowhere.csv"),
        (("--trace", "lengths", "--arrivals", "trace"), "must be a trace for process trace"),
        (("--fail", "nothing@1"), "must name an island"),
    ],
)
def test_what_cannot_be_is_refused(planner: Command, run: Path, flags: tuple[str, ...], words: str) -> None:
    answer = planner("tune", run, *flags)
    assert answer.status == EXIT_BAD_INPUT
    assert words in answer.err
