"""`planner study pwr`: figures of several traces with a table each, beside what the paper says, and what it refuses."""

from pathlib import Path

import pytest
from command_line import Command
from openb_files import read_rows, trace_nodes, trace_pods, write_rows

from planner.errors import EXIT_BAD_INPUT, EXIT_DONE
from planner.studies.policies.paper import COMBINATIONS, POLICIES, STATEMENTS, TRACES, Measure, reproduced
from planner.studies.policies.plots import PAPER_FIGURES
from planner.studies.policies.records import OnlineRun

BARE = ("study", "pwr", "--nodes", "nodes.csv", "--seeds", 1, "--processes", 1, "--quiet", "--out", "p")
FEW = ("--policy", "fgd", "--policy", COMBINATIONS[0])


@pytest.fixture(autouse=True)
def _files(planner: Command) -> None:
    write_rows("nodes.csv", trace_nodes(30))
    write_rows("openb_pod_list_multigpu20.csv", trace_pods(60))
    write_rows("mine.csv", trace_pods(60, seed=1))


def test_figures_whose_traces_are_given(planner: Command) -> None:
    pods = ("--pods", "openb_pod_list_multigpu20.csv", "--pods", "multigpu50=mine.csv", "--pods", "gpuspec10=mine.csv")
    answer = planner(*BARE, *FEW, *pods)
    assert answer.status == EXIT_DONE
    files = {path.relative_to("p").as_posix() for path in Path("p").rglob("*") if path.is_file()}
    assert files == {
        "report.html",
        "summary.md",
        "figure-05.csv",
        "figure-09.csv",
        "figures/figure-05.png",
        "figures/figure-09.png",
    }
    rows = read_rows("p/figure-05.csv")
    assert {(row["trace"], row["policy"]) for row in rows} == {
        (trace, policy) for trace in ("multigpu20", "multigpu50") for policy in ("fgd", COMBINATIONS[0])
    }
    watts = {(row["trace"], row["policy"], row["arrived_percent"]): float(row["power_w"]) for row in rows}
    for row in rows:
        base = watts[row["trace"], "fgd", row["arrived_percent"]]
        assert float(row["power_saved_percent"]) == pytest.approx(100 * (base - float(row["power_w"])) / base, abs=0.01)
    page = Path("p/summary.md").read_text()
    least = min(
        float(row["power_saved_percent"])
        for row in rows
        if (row["trace"], row["policy"]) == ("multigpu20", COMBINATIONS[0]) and 15 <= int(row["arrived_percent"]) <= 82
    )
    assert f"| 5 | multigpu20 | pwr:0.05+fgd:0.95 | 15–82 | least saved, % | above 7 | {least:.2f} |" in page
    assert "| 5 | multigpu50 | pwr:0.2+fgd:0.8 | 15–90 | least saved, % | above 7 | – |" in page
    again = planner(*BARE, *FEW, *pods)
    assert (again.status, again.out) == (EXIT_BAD_INPUT, "")


def test_watts_by_the_paper_s_own_equation(planner: Command) -> None:
    """Idle CPUs draw less by equation 1, which rounds their sockets down; GPUs as much. Placements without PWR stay."""
    drawn = {}
    for formula in ("simulators", "paper"):
        out = ("--out", formula, "--force", "--power-formula", formula)
        assert planner(*BARE[:-2], "--policy", "fgd", "--pods", "default=mine.csv", *out).status == EXIT_DONE
        drawn[formula] = read_rows(f"{formula}/figure-01.csv")
    for theirs, ours in zip(drawn["simulators"], drawn["paper"], strict=True):
        assert (theirs["gpu_power_w"], theirs["grar"]) == (ours["gpu_power_w"], ours["grar"])
        assert float(theirs["power_w"]) >= float(ours["power_w"])
    assert drawn["simulators"] != drawn["paper"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--pods", "mine.csv"), "the trace must be one of default, gpushare40"),
        (("--pods", "default=mine.csv", "--pods", "default=mine.csv"), "each trace may come once, got default twice"),
        (("--pods", "default=mine.csv", "--policy", "pwr"), "fgd must be among them"),
        (("--pods", "gpushare40=mine.csv", *FEW), "no figure of the paper"),
        (("--pods", "default=none.csv", *FEW), "none.csv"),
    ],
)
def test_what_cannot_be_drawn_is_refused(planner: Command, options: tuple[str, ...], said: str) -> None:
    answer = planner(*BARE, *options)
    assert (answer.status, answer.out) == (EXIT_BAD_INPUT, "")
    assert said in answer.err
    assert not Path("p").exists()


def test_statements_are_of_the_figures_own_traces() -> None:
    """Sections VI-C and VI-D: savings in figures 3 to 6, GRAR in 7 to 10."""
    assert {statement.figure for statement in STATEMENTS} == set(range(3, 11))
    for statement in STATEMENTS:
        figure = PAPER_FIGURES[f"figure-{statement.figure:02}"]
        assert statement.trace in figure.traces
        assert statement.trace in TRACES
        assert statement.policy in POLICIES
        assert (figure.kind == "savings") == (statement.measure in (Measure.LEAST_SAVED, Measure.MOST_SAVED))
    nothing: dict[str, dict[str, list[OnlineRun]]] = {}
    assert {row.ours for row in reproduced(nothing, range(1, 11))} == {None}
