"""What a run is said to be worth, against what deciding by it gained: public runs that no fit had seen.

| symbol | meaning | unit |
|---|---|---|
| case | a model at a precision, engine, lengths, requests in flight, and two GPU types that were measured so | |
| p | price of the second type over the first's, by which the predicted rates per USD are alike but for ODDS | 1 |
| V | rate per USD of each type's run that is predicted to be best; its pace is doubted | |

Each type may be rented. A run shows one configuration of a type at other lengths, or with other requests in flight:
what was measured there over what was predicted, by a fit without the model (or without model and GPU type). Predicted:
the worth of the better of two runs, one of each type, as `planner cost measure` has it. Realised: what deciding by the
posterior truly gained over deciding without, by what was measured of the deployments; mean over all runs that show the
configuration. Calibrated: the same for paces that a calibration fits to that run. All are shares of the rate per USD
that deciding now is expected to have.
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import make_bands
import numpy as np
import pytest
from benchmark_evidence import given_runs

import planner
from planner.cost.benchmarks.pace_fit import PacedRun, fit_paces
from planner.cost.residuals.band_draws import errors_of
from planner.cost.residuals.bands import slice_band
from planner.cost.residuals.information import Decisions, shown_noise
from planner.cost.residuals.pace_draws import Key, pace_dimensions, pace_scores, uniform_draws
from planner.domain import Band, Metric, NamedRun, Phase, Relation

GUIDES = Path(planner.__file__).parent / "cli/docs/guides"
ODDS = (0.9, 1.0, 1.1)
DRAWS = 256
RELATIONS = (Relation.MODEL, Relation.FORMULAS)


@dataclass(frozen=True, kw_only=True)
class Shown:
    """A run of an aggregated loop: measured and predicted rate per GPU."""

    entry: NamedRun
    configuration: tuple[object, ...]
    kind: str
    measured: float
    predicted: float

    @property
    def asked(self) -> tuple[float, float, float | None]:
        """Lengths and requests in flight."""
        return self.entry.run.input_tokens, self.entry.run.output_tokens, self.entry.run.concurrency


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Of a case at a price: shares of the value of deciding now."""

    pair: tuple[object, ...]
    predicted: float
    realised: float
    calibrated: float


@cache
def shown(relation: Relation) -> dict[tuple[object, ...], dict[str, list[Shown]]]:
    """Runs by model, precision and engine, then by GPU type."""
    entries = {(n.run.file.rsplit("/", 1)[-1], n.run.row): n for n in given_runs()}
    groups: dict[tuple[object, ...], dict[str, list[Shown]]] = defaultdict(lambda: defaultdict(list))
    points = make_bands.points(given_runs())
    kinds = {residual.row: residual.kind for residual in make_bands.residuals(points)}
    for point in points:
        rate = point.cells["metric"] == Metric.OUTPUT_RATE and point.figure is Phase.MIXED
        if not rate or point.old or relation not in point.logs:
            continue
        run = Shown(
            entry=entries[point.row],
            configuration=point.configuration,
            kind=kinds[point.row],
            measured=point.measured,
            predicted=point.measured * math.exp(-point.logs[relation]),
        )
        groups[point.model.parameters, point.precision, point.engine][point.gpu.name].append(run)
    return groups


def cases(relation: Relation) -> Iterator[tuple[tuple[Shown, ...], tuple[list[Shown], ...]]]:
    """The deployment of each of two types that would be rented, and the runs that may show its pace."""
    for types in shown(relation).values():
        for pair in itertools.combinations(sorted(types), 2):
            common = set.intersection(*({run.asked for run in types[gpu]} for gpu in pair))
            for asked in sorted(common, key=repr):
                rented = [
                    max((run for run in types[gpu] if run.asked == asked), key=lambda run: run.predicted)
                    for gpu in pair
                ]
                others = [
                    [run for run in types[gpu] if run.configuration == best.configuration and run is not best]
                    for gpu, best in zip(pair, rented, strict=True)
                ]
                if all(others):
                    yield tuple(rented), tuple(others)


def outcomes(relation: Relation) -> Iterator[Outcome]:
    for rented, others in cases(relation):
        band = slice_band(Phase.MIXED, relation, (rented[0].kind,))
        for odds in ODDS:
            yield outcome(rented, others, band, odds)


def outcome(rented: Sequence[Shown], others: Sequence[Sequence[Shown]], band: Band, odds: float) -> Outcome:
    price = (1.0, odds * rented[1].predicted / rented[0].predicted)
    keys: list[Key] = [(run.entry.run.gpu, Phase.MIXED) for run in rented]
    scores = pace_scores(keys, uniform_draws(DRAWS, pace_dimensions(keys), 0))
    predicted = np.array([run.predicted / usd for run, usd in zip(rented, price, strict=True)])
    truth = np.array([run.measured / usd for run, usd in zip(rented, price, strict=True)])
    noise = shown_noise(band)
    values = np.stack([predicted[k] * errors_of(band, scores[key]) for k, key in enumerate(keys)], axis=1)
    decisions = Decisions(values, scores, dict.fromkeys(keys, noise))
    now = int(decisions.means.argmax())
    best = decisions.best_runs(1, lambda _, worth: worth)
    pair = tuple((run.entry.run.gpu, run.entry.run.model, run.entry.run.engine) for run in rented)
    if not best:
        return Outcome(pair=pair, predicted=0.0, realised=0.0, calibrated=0.0)
    number = keys.index(best[0].key)
    gained, fitted = [], []
    for run in others[number]:
        log = math.log(run.measured / run.predicted)
        weights = np.exp(-0.5 * ((score_of(band, log) - scores[keys[number]]) / noise) ** 2)
        then = int((weights @ values).argmax())
        gained.append(truth[then] - truth[now])
        paces = np.ones(2)
        paces[number] = calibrated_pace(run, log)
        fitted.append(truth[int((predicted * paces).argmax())] - truth[int(predicted.argmax())])
    scale = float(decisions.means[now])
    return Outcome(
        pair=pair,
        predicted=best[0].worth / scale,
        realised=float(np.mean(gained)) / scale,
        calibrated=float(np.mean(fitted)) / scale,
    )


def score_of(band: Band, log: float) -> float:
    """z of a pace."""
    ends = np.linspace(-6, 6, 2401)
    return float(np.interp(log, np.log(errors_of(band, ends)), ends))


def calibrated_pace(run: Shown, log: float) -> float:
    """What one run makes of the pace of its place."""
    fit = fit_paces([PacedRun(group=(run.entry.run.gpu, "", "", ""), degrees=None, version="", log=log, trust=0.15)])
    return math.exp(float(fit.paces[run.entry.run.gpu, "", "", ""].ln))


def means(relation: Relation) -> Mapping[str, float]:
    """Of all cases; `error`: of the realised mean, pairs of machines counting as one draw each."""
    rows = list(outcomes(relation))
    total: dict[object, float] = defaultdict(float)
    mean = float(np.mean([row.realised for row in rows]))
    for row in rows:
        total[row.pair] += row.realised - mean
    return {
        "cases": len(rows),
        "pairs": len(total),
        "predicted": float(np.mean([row.predicted for row in rows])),
        "realised": mean,
        "error": math.sqrt(sum(off**2 for off in total.values())) / len(rows),
        "calibrated": float(np.mean([row.calibrated for row in rows])),
    }


@pytest.mark.study
@pytest.mark.parametrize("relation", RELATIONS)
def test_runs_gained_what_they_were_said_to_be_worth(relation: Relation) -> None:
    """Within what so few pairs of machines tell."""
    figures = means(relation)
    assert figures["cases"] > 1000
    assert figures["pairs"] > 40
    assert figures["realised"] == pytest.approx(figures["predicted"], abs=2 * figures["error"])
    assert figures["realised"] > 0
    assert figures["calibrated"] > 0
    guide = " ".join((GUIDES / "doubt.md").read_text(encoding="utf-8").split())
    said, gained, error = (100 * figures[name] for name in ("predicted", "realised", "error"))
    assert f"worth {said:.1f} % of the rate per USD, and gained {gained:.1f} ± {error:.1f} %" in guide or (
        f"worth {said:.1f} %, and gained {gained:.1f} ± {error:.1f} %" in guide
    )
    assert f"of {figures['cases']:,} choices" in guide


def test_a_calibration_by_one_run_believes_it_in_part() -> None:
    """As the posterior does: towards what was shown, and not all the way."""
    groups = shown(Relation.FORMULAS)
    run = next(run for types in groups.values() for runs in types.values() for run in runs)
    band = slice_band(Phase.MIXED, Relation.FORMULAS, (run.kind,))
    assert 1 < calibrated_pace(run, 0.3) < math.exp(0.3)
    assert errors_of(band, np.array([score_of(band, 0.2)]))[0] == pytest.approx(math.exp(0.2), rel=1e-3)
