"""Figures in sentences that follow from a table beside them, from a shipped file, or from arithmetic."""

import csv
from itertools import pairwise

import pytest
import yaml
from documentation import ROOT, TEXTS
from figures import production
from test_results import printed_cluster, printed_cut, printed_rates

pytestmark = pytest.mark.usefixtures("all_draws")

RESULTS = " ".join(TEXTS["results"].split())


def test_the_schedules_table_follows_from_its_costs() -> None:
    assert len(production()) == 4
    for usd, standing, gained, _ in production():
        assert gained == pytest.approx(100 * (standing / usd - 1), abs=0.1)


def test_the_day_of_the_schedule_is_as_told() -> None:
    text = (ROOT / "workloads/rates/servegen-deepseek-r1.yaml").read_text(encoding="utf-8")
    rows = [line.split(",") for line in yaml.safe_load(text)["rates"].split()[1:]]
    rates, times = [float(rate) for _, rate in rows], [float(time) for time, _ in rows]
    told = f"in windows of ten minutes, {min(rates):.0f} to {max(rates):.0f} requests/s"
    assert told in " ".join(TEXTS["schedules"].split())
    assert {later - time for time, later in pairwise(times)} == {600}


def test_what_is_told_of_the_placed_tables_stands_in_them() -> None:
    exact, placed = printed_rates("exact"), printed_rates("placed")
    worse, better = 100 * (1 - placed[2] / exact[2]), 100 * (placed[3] / exact[3] - 1)
    assert f"{better:.1f} % on code, by a layout that is {worse:.1f} % worse on paper" in RESULTS
    assert placed[:2] == exact[:2]  # nothing on conversation
    searches = ("divider", "direct", "graph", "auto")
    cuts = {name: [printed_cut(f"method: {name}", column) for column in range(4)] for name in searches}
    others = [max(cuts["divider"][k], cuts["direct"][k]) for k in range(4)]
    assert [graph > other for graph, other in zip(cuts["graph"], others, strict=True)] == [False, True, True, True]
    ahead = [100 * (cuts["graph"][k] / cuts[name][k] - 1) for name in ("divider", "direct") for k in range(4)]
    assert f"by up to {max(ahead):.0f} %, and {-min(ahead):.0f} % behind once" in RESULTS
    lead = [100 * (auto / graph - 1) for auto, graph in zip(cuts["auto"], cuts["graph"], strict=True)]
    assert f"is ahead of it everywhere, by {min(lead):.0f} to {max(lead):.0f} %" in RESULTS


def test_the_fragmented_cluster_is_as_told() -> None:
    cluster = printed_cluster()
    switches = {node.asw for node in cluster.nodes}
    told = f"{sum(cluster.idle_gpus.values())} idle GPUs of {len(cluster.nodes)} nodes, in holes of one to eight, under"
    assert told in RESULTS
    assert len(switches) == 7


def sure_rows() -> list[dict[str, str]]:
    """What `tests/pipeline/sure_fleets.py` wrote."""
    with (ROOT / "tests/data/sure_fleets.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_the_tables_of_sure_fleets_are_those_that_were_measured() -> None:
    readme, guide = " ".join(TEXTS["README"].split()), " ".join(TEXTS["doubt"].split())
    traces = {"azure-code-2023": "code", "azure-conv-2023": "conversation"}
    for row in sure_rows():
        fleet, odds = f"{row['fleet']}, {traces[row['trace']]}", f"{100 * float(row['odds_of_demand']):.0f} %"
        rates = {name: f"{float(row[name]):.3g}" for name in ("promise_rps", "sure_rps", "p10_rps", "mean_rps")}
        told = (fleet, row["plan"], rates["promise_rps"], odds, *list(rates.values())[1:])
        assert f"| {' | '.join(told)} |" in guide
        (line,) = (line for line in TEXTS["README"].splitlines() if line.startswith(f"| {fleet} |"))
        kind, _, gpus = row["plan"].partition(": ")
        cell = line.split(" | ")[["as predicted", "sure", "one type"].index(kind) + 1].removesuffix(" |")
        assert cell == f"{f'{gpus}: ' if gpus else ''}{odds}, {rates['sure_rps']}"
    assert readme.count("conversation |") == 3


def test_plans_to_be_sure_are_surer_than_plans_as_predicted() -> None:
    """In draws that chose nothing, of every fleet and trace: at P10 and where 80 % are sure."""
    rows = {(row["fleet"], row["trace"], row["plan"].partition(":")[0]): row for row in sure_rows()}
    pairs = [(row, rows[*key[:2], "sure"]) for key, row in rows.items() if key[2] == "as predicted"]
    assert len(pairs) == 6
    for predicted, sure in pairs:
        for figure in ("sure_rps", "p10_rps"):
            assert float(sure[figure]) >= float(predicted[figure])
