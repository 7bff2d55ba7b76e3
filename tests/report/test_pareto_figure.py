"""Several goals in the summary and as a figure, from hand-made trials."""

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from drawn_figures import laid_out, require_apart, require_on_canvas

import planner
from planner.domain import (
    CostMode,
    CostSettings,
    CurrentIsland,
    Goal,
    IslandClass,
    Layout,
    ObjectiveKind,
    ObjectiveSettings,
    Phase,
    Pick,
    Plan,
    Round,
    SearchRecord,
    Trial,
)
from planner.errors import InputError
from planner.report import FIGURES, encode_figure, figure, figures_of, render, summary

# rate, price, watts, headroom, changes, change_cost; beaten: 2 (by 0) and 5 (by 1)
ROWS = (
    (180.0, 300.0, 52000.0, 0.1, 9, 40.0),
    (120.0, 150.0, 30000.0, 0.25, 4, 20.0),
    (170.0, 310.0, 53000.0, 0.05, 9, 41.0),
    (60.0, 80.0, 15000.0, -0.4, 2, 8.0),
    (0.0, 0.0, 0.0, 0.0, 0, 0.0),
    (110.0, 160.0, 31000.0, 0.2, 5, 21.0),
)
FRONT = (0, 1, 3)
PAIRS = {
    2: (Goal.RATE, Goal.PRICE),
    3: (Goal.RATE, Goal.HEADROOM, Goal.CHANGES),
    5: tuple(Goal)[:5],
    6: tuple(Goal),
}


def trial(index: int, goals: Sequence[Goal]) -> Trial:
    values = dict(zip(Goal, ROWS[index], strict=True))
    rate = values[Goal.RATE]
    return Trial(
        index=index,
        iteration=index // 2,
        parameters=(),
        layout=Layout.of([IslandClass(gpu="H20", size=8 + index)]),
        throughput_rps=rate,
        generator="test",
        goals=tuple((goal.value, values[goal]) for goal in goals) if rate else (),
    )


def record(trials: Sequence[Trial], front: tuple[int, ...], best: int, rounds: int = 3) -> SearchRecord:
    costs = tuple(
        Round(
            iteration=k,
            evaluations=2,
            best_rps=180.0,
            generation_cpu_s=0.1,
            evaluation_cpu_s=0.2,
            hypervolume=10.0 * (k + 1),
        )
        for k in range(rounds)
    )
    return SearchRecord(trials=tuple(trials), best_trial=best, frontier=front, rounds=costs)


def several(plan: Plan, goals: tuple[Goal, ...], best: int = 0, pick: Pick = Pick.KNEE) -> Plan:
    objective = ObjectiveSettings(
        kind=ObjectiveKind.PARETO,
        goals=goals,
        pick=pick,
        within=0.125,
        demand_rps=100.0,
        current=(CurrentIsland(gpu="H20", size=8, phase=Phase.DECODE, count=3),),
    )
    trials = [trial(index, goals) for index in range(len(ROWS))]
    return replace(plan, scenario=replace(plan.scenario, objective=objective), search=record(trials, FRONT, best))


def section(plan: Plan) -> str:
    return summary(plan).split("## Frontier\n\n")[1].split("\n\n## ")[0]


def rows_of(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]


def labelled(axes, label: str):
    return next(item for item in (*axes.lines, *axes.collections) if str(item.get_label()).startswith(label))


def test_the_table_has_a_row_a_layout_and_marks_the_plan(plan):
    text = section(several(plan, PAIRS[5]))
    header, _, *rows = rows_of(text)
    assert header[:6] == ["Trial", "Requests/s", "USD/hour", "kW", "Headroom", "Islands changed"]
    assert [row[0] for row in rows] == ["**0** (the plan)", "1", "3"]
    assert rows[0][1:6] == ["**180.0**", "**300.00**", "**52.0**", "**10 %**", "**9**"]
    assert rows[2][1:6] == ["60.00", "80.00", "15.0", "-40 %", "2"]
    assert rows[1][6] == "H20 9x1"
    assert "3 layouts of the 5 that serve" in text
    assert "(knee)" in text
    assert "at 100.0 requests/s" in text
    assert "3 islands that run now" in text


def test_the_rule_of_the_pick_is_told(plan):
    text = section(several(plan, (Goal.RATE, Goal.PRICE, Goal.CHANGES), pick=Pick.WITHIN))
    assert "within 12.5 % of the best rate, the best in price, then changes" in text
    assert "demanded rate" not in text


@pytest.mark.parametrize(("count", "told"), [(20, ""), (21, "1 layout more"), (30, "10 layouts more")])
def test_twenty_rows_and_how_many_more(plan, count, told):
    goals = (Goal.RATE, Goal.PRICE)
    base = trial(0, goals)
    trials = [
        replace(base, index=k, throughput_rps=50.0 + k, goals=(("rate", 50.0 + k), ("price", 10.0 + k)))
        for k in range(count)
    ]
    made = several(plan, goals)
    made = replace(made, search=record(trials, tuple(range(count)), best=0))
    text = section(made)
    rows = rows_of(text)[2:]
    assert len(rows) == 20
    assert [row[0] for row in rows[:2]] == [str(count - 1), str(count - 2)]
    assert rows[-1][0] == "**0** (the plan)"  # of the lowest rate, and still told
    assert told in text
    assert ("more of the frontier" in text) == bool(told)


def test_without_a_frontier_there_is_neither(plan):
    assert "## Frontier" not in summary(plan)
    assert figures_of(plan) == (*FIGURES, "importance", "slices")
    with pytest.raises(InputError, match="'pareto'") as caught:
        figure(plan, "pareto")
    assert "kind pareto" in caught.value.hint


def test_the_run_gets_the_figure(plan):
    pages = render(several(plan, PAIRS[2]))
    assert pages["figures/pareto.png"].startswith(b"\x89PNG")


def test_two_goals_are_stairs_over_dots(plan):
    upper, lower = figure(several(plan, PAIRS[2], best=1), "pareto").axes
    assert labelled(upper, "not beaten").get_offsets().tolist() == [[300, 180], [150, 120], [80, 60]]
    assert labelled(upper, "beaten").get_offsets().tolist() == [[310, 170], [160, 110]]
    assert labelled(upper, "the plan (trial 1)").get_offsets().tolist() == [[150, 120]]
    stairs = labelled(upper, "best for its value")
    assert list(stairs.get_xdata()) == [80, 150, 300]
    assert stairs.get_drawstyle() == "steps-post"
    assert "(USD/hour)" in upper.get_xlabel()
    assert "(requests/s)" in upper.get_ylabel()
    (line,) = lower.lines
    assert list(line.get_xdata()) == [0, 1, 2]
    assert list(line.get_ydata()) == [10, 20, 30]


def test_every_further_goal_has_a_panel(plan):
    *panels, covered = figure(several(plan, PAIRS[5]), "pareto").axes
    units = ["(USD/hour)", "(kW)", "(%)", "islands changed"]
    assert all(unit in axes.get_xlabel() for unit, axes in zip(units, panels, strict=True))
    fronts = [labelled(axes, "not beaten").get_offsets().tolist() for axes in panels]
    assert fronts[1] == [[52, 180], [30, 120], [15, 60]]
    assert fronts[2] == [[10, 180], [25, 120], [-40, 60]]
    assert [rate for _, rate in fronts[3]] == [180, 120, 60]
    assert "hypervolume" in covered.get_ylabel()


def texts(drawn):
    found = [*drawn.texts, *(text for legend in drawn.legends for text in legend.get_texts())]
    for axes in drawn.axes:
        found += [axes._left_title, axes.xaxis.label, axes.yaxis.label]
    return [(t.get_text(), t.get_window_extent()) for t in found if t.get_visible() and t.get_text()]


@pytest.mark.parametrize("count", PAIRS)
def test_nothing_leaves_the_canvas_or_runs_into_another(plan, count):
    made = several(plan, PAIRS[count])
    scenario = replace(made.scenario, name="a_long_name-" * 5, cost=CostSettings(mode=CostMode.REFERENCE))
    drawn = laid_out(figure(replace(made, scenario=scenario), "pareto"))
    assert "not physical" in drawn.get_suptitle()
    require_on_canvas(drawn)
    require_apart(texts(drawn))


def test_a_single_layout_and_no_rounds_can_be_drawn(plan):
    made = several(plan, PAIRS[3])
    lone = replace(made, search=record([trial(0, PAIRS[3])], (0,), best=0, rounds=0))
    drawn = figure(lone, "pareto")
    assert encode_figure(drawn) == encode_figure(figure(lone, "pareto"))
    assert len(drawn.axes) == len(PAIRS[3]) - 1  # what the frontier covers was not recorded
    assert "1 layout of the 1 that serve" in section(lone)


def test_the_summary_needs_no_matplotlib():
    code = (
        "import sys, planner.report.comparison.pareto; assert not {'matplotlib', 'torch', 'pandas'} & set(sys.modules)"
    )
    root = Path(planner.__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
