"""What the ASI paper says of IPC (section 4.1), held against raw results."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

from planner.studies.papers.records import Claim, Results, Verdict

CHURN, EXACT, LARGE = "churn", "exact", "large"
"""Raw tables: rhythms over a week, the exact optimum on 25 nodes, IPC's rounds on as many GPUs as ASI has."""
FEWER_PERCENT, DECISION_S, ILP_S, LAST_ROUND = 20.2, 120.0, 300.0, 3
NEAR = 0.15
"""Share by which a percentage of a made-up cluster may lie off the paper's, and still be called close to it: seeds of
ours differ by more."""


def claims(results: Results) -> Iterator[Claim]:
    """In the order of the section."""
    yield _rounds(results)
    yield _decision(results)
    yield from _fewer(results)
    yield _optimum(results)


def _rounds(results: Results) -> Claim:
    """A row a round: steps, which vacate a node each, and moves."""
    steps = [int(row["steps"]) for row in results.table(LARGE)]
    after = sum(steps[LAST_ROUND:]) / sum(steps)
    return Claim(
        place="section 4.1",
        words="little is gained after the third round",
        published="small",
        ours=f"nodes vacated by round: {', '.join(map(str, steps))}; {100 * after:.1f} % after the third",
        verdict=Verdict.HOLDS if after < 1 / len(steps) else Verdict.OPEN,
        run=results.run(LARGE),
        reason="" if after < 1 / len(steps) else "The paper does not say how much is small.",
    )


def _decision(results: Results) -> Claim:
    run = results.run(LARGE)
    holds = run.cpu_s < DECISION_S
    return Claim(
        place="section 4.1",
        words="a decision takes under two minutes",
        published="< 120 s",
        ours=f"{run.cpu_s:.0f} CPU-s on one core, cluster file, replay and JSON included",
        verdict=Verdict.HOLDS if holds else Verdict.CLOSE,
        run=run,
        reason="" if holds else "One core here; partitions run side by side on several.",
    )


def _fewer(results: Results) -> Iterator[Claim]:
    rows = results.table(CHURN)
    for every, words in (("24", "daily"), ("1", "hourly")):
        by_seed = [float(row["reduction_percent"]) for row in rows if row["every_hours"] == every]
        mean = fmean(by_seed)
        off = mean / FEWER_PERCENT - 1
        ours = f"{mean:.1f} % a run (seeds: {min(by_seed):.1f} to {max(by_seed):.1f}); {over_time(rows, every):.1f} % "
        yield Claim(
            place="section 4.1",
            words=f"nodes not fully occupied, fewer by IPC; runs {words}",
            published=f"{FEWER_PERCENT:g} %",
            ours=ours + "on average over the hours",
            verdict=Verdict.CLOSE if abs(off) <= NEAR else Verdict.EXPLAINED,
            run=results.run(CHURN),
            reason=f"{100 * off:+.0f} % off, on tasks that are made up: the paper replays two months of its own and "
            "does not say how often IPC runs. The less time between runs, the less a run finds.",
        )


def over_time(rows: Sequence[Mapping[str, str]], every: str) -> float:
    """By how many percent a rhythm lowers the nodes with an idle GPU on average over the hours, against never."""
    never, ours = (
        fmean(float(row["not_full"]) for row in rows if row["every_hours"] == hours) for hours in ("", every)
    )
    return 100 * (1 - ours / never)


def _optimum(results: Results) -> Claim:
    rows, run = results.table(EXACT), results.run(EXACT)
    short = sum(int(row["ipc_in_use"]) > int(row["exact_in_use"]) for row in rows)
    more = sum(int(row["ipc_moves"]) > int(row["exact_moves"]) for row in rows if row["exact_moves"])
    proven = sum(row["proven"] == "True" for row in rows)
    each = run.cpu_s / len(rows)
    holds = proven == len(rows) and each < ILP_S
    return Claim(
        place="section 4.1",
        words="25 nodes as an integer programme are solved in about five minutes on 16 cores",
        published=f"{ILP_S:.0f} s",
        ours=f"{proven} of {len(rows)} proven, {each:.1f} CPU-s each, clusters made included; IPC is a node short on "
        f"{short}, and takes moves beyond the fewest on {more}",
        verdict=Verdict.HOLDS if holds else Verdict.OPEN,
        run=run,
        reason="" if holds else "Some are not proven within their limit of work.",
    )
