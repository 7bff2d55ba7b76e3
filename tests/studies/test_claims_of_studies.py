"""Claims follow their raw rows: another figure there, another verdict here; and the guide tells what the rows have."""

from collections.abc import Callable, Mapping

import pytest

from planner.studies.asi.claims import claims as asi_claims
from planner.studies.asi.claims.figures import MADE_UP
from planner.studies.defragmentation.claims import claims as moves_claims
from planner.studies.papers.records import Claim, Run, Verdict
from planner.studies.papers.results import ResultsFolder
from planner.studies.papers.study import FOLDER, RESULTS
from planner.studies.policies.claims import claims as policy_claims
from planner.studies.preemption.claims import claims as preemption_claims
from planner.studies.spot.claims import claims as spot_claims

Rows = list[Mapping[str, str]]
Change = Callable[[Mapping[str, str]], Mapping[str, str]]


class Changed:
    """A study's raw results, one table of it changed row by row."""

    def __init__(self, study: str, name: str, change: Change) -> None:
        self.raw, self.name, self.change = ResultsFolder(FOLDER / study / RESULTS), name, change

    def table(self, name: str) -> Rows:
        rows = self.raw.table(name)
        return [self.change(row) for row in rows] if name == self.name else rows

    def run(self, name: str) -> Run:
        return self.raw.run(name)


def scaled(column: str, factor: float, **where: str) -> Change:
    def change(row: Mapping[str, str]) -> Mapping[str, str]:
        meant = all(row[key] == value for key, value in where.items())
        return {**row, column: str(float(row[column]) * factor)} if meant else row

    return change


def halved_hits(row: Mapping[str, str]) -> Mapping[str, str]:
    return {**row, "hits": str(int(row["hits"]) // 2)}


def same(row: Mapping[str, str]) -> Mapping[str, str]:
    return row


FEWER = "nodes not fully occupied, fewer by IPC"


def calm(row: Mapping[str, str]) -> Mapping[str, str]:
    """Every hour alike."""
    return {**row, "y": "60"}


CASES = [
    (preemption_claims, "preemption", "table_4", halved_hits, "hit rate with FlexTopo (guaranteed)"),
    (preemption_claims, "preemption", "table_4", halved_hits, "hit rate of standard preemption, all GPUs"),
    (preemption_claims, "preemption", "table_4", halved_hits, "guaranteed QoS: scheduling fails less"),
    (
        preemption_claims,
        "preemption",
        "table_5",
        scaled("p90_us", 1.5, workload="B", method="imp"),
        "workload B, P90: saved by IMP",
    ),
    (preemption_claims, "preemption", "table_5", scaled("p50_us", 0.5, method="imp"), "workload C with IMP closely"),
    (preemption_claims, "preemption", "table_5", scaled("p50_us", 9, method="standard"), "standard preemption is fast"),
    (preemption_claims, "preemption", "figure_10", scaled("time_us", 3, workload="C"), "a search for a B pod takes"),
    (policy_claims, "policies", "default", scaled("power_saved_percent", 2, policy="dotprod"), "default: the three"),
    (
        policy_claims,
        "policies",
        "default",
        scaled("grar", 0.99, arrived_percent="70"),
        "default: no policy's GRAR is below 1 before 85",
    ),
    (policy_claims, "policies", "default", scaled("grar", 1.02, policy="pwr:0.9+fgd:0.1"), "GRAR, the GPU"),
    (policy_claims, "policies", "gpuspec", scaled("power_saved_percent", 0.9), "gpuspec10, 0.05 PWR + 0.95 FGD, at 15"),
    (policy_claims, "policies", "gpuspec", scaled("power_saved_percent", 0.8), "power saved by the three mixtures"),
    (
        policy_claims,
        "policies",
        "multigpu",
        scaled("grar", 0.99, policy="pwr:0.2+fgd:0.8"),
        "multigpu20, 0.2 PWR + 0.8 FGD, at 100",
    ),
    (spot_claims, "spot", "policies", scaled("all_percent", 0.9), "GPUs allocated to guaranteed and spot"),
    (spot_claims, "spot", "policies", scaled("eviction_mean_s", 2), "mean time of an eviction"),
    (
        spot_claims,
        "spot",
        "policies",
        scaled("spot_completion_mean_h", 1.25, policy="spotgpu"),
        "spot jobs are done sooner",
    ),
    (
        spot_claims,
        "spot",
        "policies",
        scaled("hp_completion_mean_h", 2, policy="spotgpu"),
        "guaranteed jobs are none the worse",
    ),
    (asi_claims, "asi", "figure_13_idle_seed_0", scaled("y", 9, series="fractional"), "parts of GPUs of all idle"),
    (spot_claims, "spot", "supply", scaled("published_harvest_percent", 1.14), "lent GPU-hours that spot jobs use"),
    (
        moves_claims,
        "defragmentation",
        "churn",
        scaled("reduction_percent", 2, every_hours="24"),
        f"{FEWER}; runs daily",
    ),
    (moves_claims, "defragmentation", "churn", scaled("not_full", 0.92, every_hours="1"), f"{FEWER}; runs hourly"),
    (asi_claims, "asi", "figure_13_idle_seed_0", scaled("y", 9, x="1G8C", series="too few CPUs"), "too few CPUs is"),
    (
        asi_claims,
        "asi",
        "figure_06_adoption_seed_0",
        scaled("y", 0.625, x="123"),
        "guaranteed jobs ask for more XPU-A",
    ),
    (asi_claims, "asi", "figure_05_demand_seed_0", calm, "SM utilisation of offline"),
    (asi_claims, "asi", "figure_12_traffic_seed_0", scaled("x", 0.01, series="training"), "of the six mixes"),
]


def claim_of(read: Callable[..., object], results: Changed, words: str) -> Claim:
    rows: list[Claim] = [row for row in read(results) if row.words.startswith(words)]  # type: ignore[attr-defined]
    assert len(rows) == 1, words
    return rows[0]


@pytest.mark.parametrize(("read", "study", "table", "change", "words"), CASES)
def test_another_figure_makes_another_verdict(
    read: Callable[..., object], study: str, table: str, change: Change, words: str
) -> None:
    before, after = (claim_of(read, Changed(study, table, one), words) for one in (same, change))
    assert before.ours != after.ours
    assert before.verdict is not after.verdict


def test_what_was_put_in_is_told_from_what_follows() -> None:
    rows = list(asi_claims(Changed("asi", "", same)))
    kinds = {kind: [row for row in rows if row.words.endswith(f"({kind})")] for kind in ("put in", "follows")}
    assert len(kinds["put in"]) + len(kinds["follows"]) == len(rows)
    assert len(kinds["follows"]) >= 10
    assert all("no test" in row.reason for row in kinds["put in"])
    assert all((MADE_UP in row.reason) is (row in kinds["put in"]) for row in rows)
    assert Verdict.EXPLAINED not in {row.verdict for row in rows}
    assert {Verdict.HOLDS} < {row.verdict for row in kinds["follows"]}
