"""The Warsaw thesis' claims from raw results, and what the guide tells of them."""

from dataclasses import replace
from statistics import fmean

import pytest

from planner.cli.docs.markdown_pages import guide_text
from planner.report.kit.markdown import table
from planner.studies.papers.records import Verdict
from planner.studies.papers.results import ResultsFolder
from planner.studies.papers.study import FOLDER
from planner.studies.serving.claims import claims, judged
from planner.studies.serving.page import FINDINGS, number_words
from planner.studies.serving.reconciled.calibration import distance
from planner.studies.serving.reconciled.readings import NEAREST, NEAREST_CONSTANTS, PUBLISHED, SCOPES
from planner.studies.serving.reconciled.tables import CHOICE_NAMES, findings_by_reading, means_by_reading
from planner.studies.serving.records import Reading

RESULTS = ResultsFolder(FOLDER / "serving" / "results")
GUIDE = guide_text("studies")


def test_the_published_reading_is_the_nearest_that_was_run() -> None:
    rows = RESULTS.table("calibration")
    searched = [row for row in rows if row["stage"] != "screen"]
    nearest = min(searched, key=lambda row: float(row["distance"]))
    assert {name: float(nearest[name]) for name in NEAREST_CONSTANTS} == dict(NEAREST_CONSTANTS)
    assert {name: nearest[name] for name in CHOICE_NAMES} == {
        name: str(getattr(NEAREST, name)) for name in CHOICE_NAMES
    }
    for row in rows:
        assert float(row["distance"]) == pytest.approx(distance([float(row[of.name]) for of in PUBLISHED]), rel=1e-6)
        assert all(scope.low <= float(row[scope.name]) <= scope.high for scope in SCOPES)


def test_no_reading_of_nowhere_loads_for_more_than_seconds() -> None:
    """Why `literal` cannot come near: Baseline's published 1,931.51 s."""
    rows = RESULTS.table("calibration")
    assert max(float(row["baseline.load_s"]) for row in rows if row["absence"] == "nowhere") < 60


def test_every_figure_and_finding_has_a_verdict() -> None:
    listed = list(claims(RESULTS))
    assert len(listed) == len(PUBLISHED) + 8 + len(FINDINGS)
    assert [claim.words.rpartition(" (")[0] for claim in listed[-len(FINDINGS) :]] == [row.words for row in FINDINGS]
    assert all(claim.reason for claim in listed if claim.verdict is not Verdict.HOLDS)
    raw = RESULTS.table("readings")
    verdicts = [claim.verdict for claim in listed[-len(FINDINGS) :]]
    told = f"Of the findings {verdicts.count(Verdict.OPEN)} are open, {verdicts.count(Verdict.CLOSE)} come close"
    assert told in GUIDE
    literal, published = (int(_holding(row, raw, of)) for of, row in findings_by_reading(raw).items())
    assert literal == published + 1, "told in the guide"
    assert Verdict.EXPLAINED not in verdicts


class Other:
    """The results with one cell of readings.csv changed."""

    def __init__(self, policy: str, figure: str, factor: float) -> None:
        self.changed = policy, figure, factor

    def table(self, name: str) -> list[dict[str, str]]:
        policy, figure, factor = self.changed
        rows = [dict(row) for row in RESULTS.table(name)]
        for row in rows if name == "readings" else ():
            if row["policy"] == policy and row["reading"] == "published":
                row[figure] = str(float(row[figure]) * factor)
        return rows

    def run(self, name: str):
        return replace(RESULTS.run(name))


@pytest.mark.parametrize("row", PUBLISHED, ids=lambda row: row.name)
def test_a_figure_that_is_off_is_not_told_as_held(row) -> None:
    mean = fmean(float(cells[row.figure]) for cells in RESULTS.table("readings") if _mine(cells, row.policy))
    for factor, verdict in ((1.0, Verdict.HOLDS), (1.3, Verdict.CLOSE)):
        changed = Other(row.policy, row.figure, factor * row.value / mean)
        found = next(claim for claim in claims(changed) if claim.words == f"{row.words} (calibrated)")
        assert found.verdict is verdict


def _mine(cells, policy: str) -> bool:
    return (cells["reading"], cells["policy"]) == ("published", policy)


def test_a_finding_that_turns_round_is_not_told_as_held() -> None:
    changed = Other("baseline", "misses_per_100", 0.01)
    found = next(claim for claim in claims(changed) if claim.words.startswith("Clockwork misses fewer"))
    assert found.verdict is not Verdict.HOLDS


@pytest.mark.parametrize(
    ("policy", "figure", "factor", "words", "before", "after"),
    [
        ("clockwork", "misses_per_100", 0.5, "Clockwork misses fewer", Verdict.OPEN, Verdict.HOLDS),
        ("clockwork", "completion_p50_s", 0.9, "Clockwork completes sooner", Verdict.CLOSE, Verdict.HOLDS),
        ("rr", "misses_per_100", 0.06, "Quantum logic misses fewer", Verdict.OPEN, Verdict.HOLDS),
        ("rr", "completion_max_s", 0.65, "Quantum logic cuts", Verdict.CLOSE, Verdict.HOLDS),
        ("rr-starvation", "misses_per_100", 3, "Starvation tracking misses slightly", Verdict.HOLDS, Verdict.OPEN),
        ("rr-starvation", "completion_max_s", 0.8, "Starvation tracking cuts", Verdict.OPEN, Verdict.HOLDS),
        ("rr-starvation", "misses_per_100", 0.95, "Quanta per model miss", Verdict.CLOSE, Verdict.HOLDS),
        ("rr", "completion_p50_s", 0.006, "Plain Round Robin completes", Verdict.OPEN, Verdict.HOLDS),
        ("rr", "completion_p50_s", 0.006, "Quantum logic hardly helps", Verdict.OPEN, Verdict.HOLDS),
        ("clockwork", "completion_p99_s", 0.5, "By its curve", Verdict.CLOSE, Verdict.OPEN),
    ],
)
def test_a_finding_is_judged_by_its_size_too(
    policy: str, figure: str, factor: float, words: str, before: Verdict, after: Verdict
) -> None:
    raw, changed = (
        next(claim for claim in claims(results) if claim.words.startswith(words))
        for results in (RESULTS, Other(policy, figure, factor))
    )
    assert (raw.verdict, changed.verdict) == (before, after)


def test_the_largest_gain_is_told_as_such_where_it_is_one() -> None:
    rows = RESULTS.table("readings")
    factors = {"rr": 0.06, "rr-model-quantum": 1.37}
    changed = [
        {**row, "misses_per_100": str(float(row["misses_per_100"]) * factors.get(row["policy"], 1))} for row in rows
    ]
    for table_rows, verdict in ((rows, Verdict.OPEN), (changed, Verdict.HOLDS)):
        listed = findings_by_reading(table_rows)[Reading.PUBLISHED]
        row = next(row for row in listed if row.finding.words.startswith("Deadlines as order"))
        assert judged(row, table_rows, Reading.PUBLISHED)[0] is verdict


def told_table() -> str:
    """Each figure and how many findings hold, under both readings."""
    rows = RESULTS.table("readings")
    means = means_by_reading(rows)
    cells = [
        [row.words, number_words(row.value), *(number_words(means[of][row.policy][row.figure]) for of in Reading)]
        for row in PUBLISHED
    ]
    findings = findings_by_reading(rows)
    count = str(len(FINDINGS))
    cells.append(["Findings that hold", count, *(_holding(findings[of], rows, of) for of in Reading)])
    return table(["", "the thesis", *(f"`{of.value}`" for of in Reading)], cells, "lrrr")


def _holding(findings, rows, reading: Reading) -> str:
    return str(sum(judged(row, rows, reading)[0] is Verdict.HOLDS for row in findings))


def test_the_guide_tells_what_the_raw_results_have() -> None:
    assert told_table() in GUIDE
