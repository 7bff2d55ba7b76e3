"""Verdicts on table 5.1 follow from raw results: each turns where they do."""

from collections.abc import Iterator, Mapping

from planner.studies.chapter5.experiments import CODE, CONVERSATION, FLEETS, PUBLISHED
from planner.studies.chapter5.table_claims import label_of, table_claims
from planner.studies.papers.records import Claim, Run, Verdict

Row = dict[str, str]


class MadeUp:
    """Results that nobody measured."""

    def __init__(self, mixed: float, h800: float, given: float) -> None:
        self.tables = {
            "mixes": list(self._mixes(mixed, h800)),
            "given": list(self._given(given)),
            "readings": [
                {"reading": name, "fleet": fleet, "trace": trace, "rate_rps": str(rate)}
                for fleet, trace in PUBLISHED
                for name, rate in {"ours": 300, "trace": 200, "all but trace": 250, "all": 220}.items()
            ],
        }

    def _mixes(self, mixed: float, h800: float) -> Iterator[Row]:
        rates = {label_of("(a) mixed"): mixed, "128 H200": 100.0, "256 H800": h800}
        rival = "256 H800" if h800 > 100 else "128 H200"
        for trace in (CODE, CONVERSATION):
            for fleet, rate in rates.items():
                yield {
                    "trace": trace, "semantics": "reference", "fleet": fleet, "rate_rps": str(rate), "rival": rival,
                }  # fmt: skip

    def _given(self, factor: float) -> Iterator[Row]:
        for (fleet, trace), (rate, spread, deviation, deviation_spread) in PUBLISHED.items():
            for side in (-1, 1):
                yield {
                    "fleet": fleet, "trace": trace, "prefill_rps": str(factor * (rate + side * spread)),
                    "decode_rps": str(9 * rate), "deviation_rps": str(deviation + side * deviation_spread),
                }  # fmt: skip

    def table(self, name: str) -> list[Mapping[str, str]]:
        return list(self.tables[name])

    def run(self, name: str) -> Run:
        return Run(name=name, command=f"planner study {name}", date="2026-11-27", cpu_s=1.0)


def claims(mixed: float = 140, h800: float = 90, given: float = 1.0) -> list[Claim]:
    return list(table_claims(MadeUp(mixed, h800, given)))


def test_a_verdict_other_than_holds_has_its_reason() -> None:
    for claim in claims(given=2.0, h800=150):
        assert (claim.verdict is Verdict.HOLDS) == (not claim.reason)


def test_the_headline_holds_over_the_fleet_that_the_thesis_took_and_not_over_the_best() -> None:
    over_h200, over_best, *_ = claims(mixed=140, h800=90)
    assert (over_h200.verdict, over_best.verdict) == (Verdict.HOLDS, Verdict.HOLDS)
    over_h200, over_best, *_ = claims(mixed=140, h800=150)
    assert (over_h200.verdict, over_best.verdict) == (Verdict.HOLDS, Verdict.EXPLAINED)
    assert "0.93 over the best uniform fleet, 256 H800" in over_best.ours
    assert claims(mixed=130)[0].verdict is Verdict.CLOSE


def test_cells_hold_where_mean_and_spread_round_to_the_table() -> None:
    cells = [claim for claim in claims() if "own layouts" in claim.words]
    assert len(cells) == 2 * len(PUBLISHED)
    assert {claim.verdict for claim in cells} == {Verdict.HOLDS}
    (first, *_) = cells
    assert (first.published, first.ours) == ("176 ± 20", "176.0 ± 20.0")
    off = [claim for claim in claims(given=1.1) if "R_total of the thesis's own" in claim.words]
    assert [claim.verdict for claim in off] == [Verdict.CLOSE] * len(PUBLISHED)
    assert off[0].reason == "Off by +17.6, the spread by +2.0."


def test_our_optima_are_explained_beside_what_the_thesis_leaves_of_its_own() -> None:
    rows = [claim for claim in claims() if "reference mode" in claim.words]
    assert len(rows) == len(PUBLISHED)
    assert rows[0].ours.startswith("300.0; 220.0 as")
    assert f"end {100 * (1 - 176 / 220):.0f} % below" in rows[0].reason
    verdicts = [Verdict.EXPLAINED if (300 - rate) / 2 <= 300 - 220 else Verdict.OPEN for rate, *_ in PUBLISHED.values()]
    assert [claim.verdict for claim in rows] == verdicts
    assert set(verdicts) == {Verdict.EXPLAINED, Verdict.OPEN}


def test_fleets_are_called_as_the_raw_results_call_them() -> None:
    assert {label_of(fleet) for fleet in FLEETS} == {
        "64 H200, 64 H800, 128 H20", "32 H200, 128 H800, 128 H20", "128 H200",
    }  # fmt: skip
