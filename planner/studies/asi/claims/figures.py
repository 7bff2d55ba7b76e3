"""Points of the study's figures, over seeds, and a claim made of them."""

from collections.abc import Mapping, Sequence
from statistics import fmean

from planner.studies.papers.records import Claim, Results, Verdict

SEEDS = (0, 1, 2)
HOURS_A_DAY = 24
IN, FOLLOWS = "put in", "follows"
NO_TEST = "Put in, so no test of the paper: the study counts as the paper does."
NOT_MET = "Put in, so no test of the paper, and not met by the made-up trace."
MADE_UP = "Synthetic: made to meet published marginals; says nothing new."
Points = Mapping[tuple[str, str, str], float]


class Figures:
    """Points of a figure by panel, series and x, of every seed that it is kept of."""

    def __init__(self, results: Results) -> None:
        self.results = results

    def points(self, stem: str, seed: int = 0) -> Points:
        """Of one seed."""
        rows = self.results.table(f"{stem}_seed_{seed}")
        return {(row["panel"], row["series"], row["x"]): float(row["y"]) for row in rows}

    def each(self, stem: str, panel: str, series: str, x: str) -> list[float]:
        """One point over the seeds; 0 where a seed lacks it."""
        return [self.points(stem, seed).get((panel, series, x), 0.0) for seed in SEEDS]

    def curve(self, stem: str, panel: str, series: str) -> list[tuple[float, float]]:
        """x and y of a curve of seed 0."""
        return sorted((float(x), y) for (of, name, x), y in self.points(stem).items() if (of, name) == (panel, series))

    def quantile(self, stem: str, panel: str, series: str, share: float) -> float:
        """The smallest x that at least this share is no larger than."""
        return next(x for x, y in self.curve(stem, panel, series) if y >= share)


def spread(values: Sequence[float], unit: str = " %") -> str:
    """A mean, and the lowest and highest of the seeds."""
    return f"{fmean(values):.1f}{unit} ({min(values):.1f} to {max(values):.1f})"


def claim(
    figures: Figures, stem: str, kind: str, words: str, published: str, ours: str, verdict: Verdict, reason: str = ""
) -> Claim:
    """A claim on a figure; `kind`: put in, or following from what was."""
    caveat = NO_TEST if verdict is Verdict.HOLDS else NOT_MET
    return Claim(
        place=f"figure {int(stem.split('_')[1])}",
        words=f"{words} ({kind})",
        published=published,
        ours=ours,
        verdict=verdict,
        run=figures.results.run(f"{stem}_seed_0"),
        reason=" ".join(filter(None, (caveat, reason, MADE_UP) if kind == IN else (reason,))),
    )


def near(values: Sequence[float], published: float, within: float) -> Verdict:
    """Holds where the seeds lie around the published figure or their mean within so much; else close within thrice."""
    behind = abs(fmean(values) - published)
    if behind <= within or min(values) <= published <= max(values):
        return Verdict.HOLDS
    return Verdict.CLOSE if behind <= 3 * within else Verdict.OPEN
