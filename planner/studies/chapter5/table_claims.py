"""Table 5.1 and what is concluded from it, held against raw results: fleets of one rent, the thesis's own layouts under
its own reading, and the best layouts under every reading."""

from collections.abc import Iterator, Mapping, Sequence

from planner.studies.chapter5.experiments import CODE, CONVERSATION, FLEETS, PUBLISHED
from planner.studies.papers.records import Claim, Results, Run, Verdict

MIXES, GIVEN, READINGS = "mixes", "given", "readings"
"""Raw tables of `planner study mixes` and of `planner study readings`, with and without the thesis's runs."""
ROUNDING_RPS = 1.0
"""The table has whole requests/s."""
CLAIMED = {CODE: 1.4, CONVERSATION: 1.2}
"""Times as much as 128 H200 (sections 5.1 and 5.6)."""
MIXED, _, UNIFORM = FLEETS
NAMES = {CODE: "code", CONVERSATION: "conversation"}

OWN = "the thesis's own layouts, read as its code reads (requests/s)"

Rows = Sequence[Mapping[str, str]]


def table_claims(results: Results) -> Iterator[Claim]:
    """What mixing is worth; every cell of the table; why our cells are others."""
    for trace in CLAIMED:
        rows = [row for row in results.table(MIXES) if row["trace"] == trace]
        yield from _mixing(trace, rows, results.run(MIXES))
    for (fleet, trace), published in PUBLISHED.items():
        rows = [row for row in results.table(GIVEN) if (row["fleet"], row["trace"]) == (fleet, trace)]
        rates = [min(float(row["prefill_rps"]), float(row["decode_rps"])) for row in rows]
        deviations = [float(row["deviation_rps"]) for row in rows]
        run = results.run(GIVEN)
        yield _cell(f"{fleet}, {NAMES[trace]}: R_total of {OWN}", published[:2], rates, run)
        yield _cell(f"{fleet}, {NAMES[trace]}: D_total of {OWN}", published[2:], deviations, run)
    yield from _ours(results.table(READINGS), results.run(READINGS))


def label_of(fleet: str) -> str:
    """A fleet of the table as the raw results call it."""
    return ", ".join(f"{count} {gpu}" for gpu, count in FLEETS[fleet].items())


def _mixing(trace: str, rows: Rows, run: Run) -> Iterator[Claim]:
    """Over 128 H200, as the thesis compares, and over the best fleet of one type."""
    rates = {row["fleet"]: float(row["rate_rps"]) for row in rows if row["semantics"] == "reference"}
    rival = next(row["rival"] for row in rows if row["semantics"] == "reference")
    mixed, uniform, best = (rates[name] for name in (label_of(MIXED), label_of(UNIFORM), rival))
    claimed, over, ratio = CLAIMED[trace], mixed / uniform, mixed / best
    holds = f"{over:.1f}" == f"{claimed:.1f}"
    yield Claim(
        place="table 5.1",
        words=f"Fleet (a) serves {claimed:g} times as much as 128 H200 ({NAMES[trace]}).",
        published=f"{claimed:g}",
        ours=f"{over:.2f} (proven optima: {mixed:.1f} and {uniform:.1f} requests/s)",
        verdict=Verdict.HOLDS if holds else Verdict.CLOSE,
        run=run,
        reason="" if holds else f"{100 * (over / claimed - 1):+.0f} %.",
    )
    ahead = ratio > 1
    yield Claim(
        place="section 5.6",
        words=f"A mixed fleet serves more than a uniform one of the same price ({NAMES[trace]}).",
        published=f"{claimed:g}",
        ours=f"{'' if ahead else 'not so: '}{ratio:.2f} over the best uniform fleet, {rival} ({best:.1f} requests/s)",
        verdict=Verdict.HOLDS if ahead else Verdict.EXPLAINED,
        run=run,
        reason="" if ahead else f"The thesis compares with 128 H200 alone; {rival} cost the same and serve more.",
    )


def _cell(words: str, published: Sequence[float], values: Sequence[float], run: Run) -> Claim:
    """The mean over trials, and how far the farthest lies from it, which the table has as its spread."""
    mean = sum(values) / len(values)
    spread = max(abs(value - mean) for value in values)
    holds = max(abs(mean - published[0]), abs(spread - published[1])) <= ROUNDING_RPS
    return Claim(
        place="table 5.1",
        words=words,
        published=f"{published[0]:g} ± {published[1]:g}",
        ours=f"{mean:.1f} ± {spread:.1f}",
        verdict=Verdict.HOLDS if holds else Verdict.CLOSE,
        run=run,
        reason="" if holds else f"Off by {mean - published[0]:+.1f}, the spread by {spread - published[1]:+.1f}.",
    )


def _ours(rows: Rows, run: Run) -> Iterator[Claim]:
    """Our optima beside the table, with the reading that accounts for the difference."""
    for (fleet, trace), published in PUBLISHED.items():
        rates = {row["reading"]: float(row["rate_rps"]) for row in rows if cell_of(row) == (fleet, trace)}
        ours, theirs = rates["ours"], rates["all"]
        short = 100 * (1 - published[0] / theirs)
        accounts = ours - theirs >= (ours - published[0]) / 2  # for most of what lies between
        yield Claim(
            place="table 5.1",
            words=f"{fleet}, {NAMES[trace]}: R_total of the best layout in our reference mode, proven to 0.5 %.",
            published=f"{published[0]:g} ± {published[1]:g}",
            ours=f"{ours:.1f}; {theirs:.1f} as the thesis's code reads its chapters",
            verdict=Verdict.EXPLAINED if accounts else Verdict.OPEN,
            run=run,
            reason=f"Its reading, in {len(rates) // 2 - 1} points another, accounts for {ours - theirs:.0f} of "
            f"{ours - published[0]:.0f} requests/s; its searches end {short:.0f} % below what it allows.",
        )


def cell_of(row: Mapping[str, str]) -> tuple[str, str]:
    """Which cell of the table a row is of."""
    return row["fleet"], row["trace"]
