"""Where a search pays: objectives by methods over five seeds, each trial a row of where_search_pays.csv.

Run as a script it makes the trials that the file lacks, a quarter of an hour of one core in all, and prints the table
that the guide Planning has (`tests/benchmarks/test_where_search_pays.py` holds it against the file).

Every search judges 32 layouts, in 4 rounds of 8, or replays 16. A trial's value is requests/s of the plan: as predicted
(rate), on nodes (placed), replayed on seeds that no search saw (replayed), the P10 in 100 draws of how fast servers are
that no search saw (robust); of several goals, rate and rent, the hypervolume (requests/s) of all that was judged.
"""

import csv
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from botorch import fit_gpytorch_mll
from botorch.acquisition.logei import qLogNoisyExpectedImprovement
from botorch.acquisition.risk_measures import VaR
from botorch.models import SingleTaskGP
from botorch.models.transforms.input import AppendFeatures
from botorch.optim import optimize_acqf
from botorch.sampling.normal import SobolQMCNormalSampler
from gpytorch.mlls import ExactMarginalLogLikelihood
from scipy.stats import t as student

from planner.domain import (
    Assignment,
    BucketPool,
    EvaluateLayouts,
    Evaluation,
    Goal,
    Layout,
    ObjectiveKind,
    ObjectiveSettings,
    Proposal,
    Scenario,
    SearchSettings,
    Trial,
    no_progress,
)
from planner.domain.serving.doubt import Risk, RiskMeasure
from planner.evaluation.buckets.judging import layout_of
from planner.evaluation.doubts.drawn import at_paces, drawn_paces, rates_in_draws
from planner.evaluation.evaluator import Evaluator
from planner.evaluation.goals import reference_values
from planner.files import cluster_document, scenario_from_document
from planner.placement import Fit, NodeType, synthesize
from planner.proposing.buckets.pools import solve_buckets
from planner.proposing.buckets.robust import robust_choice
from planner.proposing.certificate import solve_layout
from planner.proposing.choice import proposer_of
from planner.proposing.queued_layouts import best_with_queues
from planner.proposing.replayed import rounds as replayed_rounds
from planner.proposing.search import Aim, Ground, Judgement, SearchResult, optimize, outer_loop
from planner.proposing.search.neighbours import moves_of, neighbours
from planner.proposing.search.pareto import hypervolume
from planner.proposing.search.promise import ranking
from planner.proposing.search.space import Parameter, Space
from planner.proposing.search.surrogate import reproducible
from planner.proposing.warm_starts import seeds_of, seeds_of_pools
from planner.workload import question_of, summarize

RESULTS = Path(__file__).with_name("where_search_pays.csv")
SEEDS = range(5)
BUDGET = {"iterations": 4, "batch_size": 8}
EVALUATIONS = BUDGET["iterations"] * BUDGET["batch_size"]
DRAWS, FRESH_DRAWS, FRESH = 8, 100, 1_000_003
RISK_DRAWS = 8
BUDGETS = 12  # of rent, for which the programme is solved where rent is a goal
P10 = Risk(measure=RiskMeasure.P10)
LEVELS = {"ttft_ms": 4000, "tpot_ms": 60, "percentile": 99}
EXACT, NEIGHBOURS, RISK = "exact", "neighbours", "risk"
METHODS: Mapping[str, Mapping[str, str]] = {
    EXACT: {"method": "exact"},
    "auto": {"method": "auto"},
    "auto, graph": {"method": "auto", "encoding": "graph"},
    "divider": {"method": "divider"},
    "plain": {"method": "divider", "candidates": "acquisition"},
    "direct": {"method": "direct"},
    "graph": {"method": "graph"},
    "saasbo": {"method": "divider", "surrogate": "saasbo"},
    "genetic": {"method": "genetic"},
    "random": {"method": "random"},
    NEIGHBOURS: {"method": "random"},  # its proposer is put in its place
    RISK: {"method": "random"},  # as that of BoTorch's risk measures is
}
"""Keys of `search:`. `plain` is the loop of the thesis; it, SAASBO and the last three vary what `divider` varies."""

WITHOUT_NODES = (EXACT, "divider", "direct", "genetic", "random", NEIGHBOURS)
ON_NODES = (EXACT, "auto", "auto, graph", "graph", "random")


def _document(inventory: Mapping[str, int] | str, workload: str, **sections: Any) -> dict[str, Any]:
    return {"name": "pays", "model": "deepseek-v3", "workload": workload, "inventory": inventory, **sections}


def _fragmented(seed: int, workload: str, **sections: Any) -> dict[str, Any]:
    """Idle GPUs of 24 nodes in holes of one to eight, as the guide Results has them."""
    types = [NodeType(gpu=gpu, share=1.0) for gpu in ("H200", "H800", "H20")]
    cluster = synthesize(24, seed, 0.6, types=types, fit=Fit("random"), nodes_per_asw=(2, 4))
    placed = {"cluster": cluster_document(cluster), "objective": "placed", "routing": {"form": "table"}}
    return _document("cluster", workload, **{**placed, **sections})


TWO, THREE = {"H200": 32, "H20": 64}, {"H200": 16, "H800": 16, "H20": 32}
PRICES = {"H200": 4.0, "H800": 2.0, "H20": 1.0}
POOLS = {"ranges": {"width": 512}, "slo": LEVELS, "serving": "split"}
CODE, MADE_UP = "azure-code-2023", "normal-500-2000"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A scenario of an objective, and the methods that are tried."""

    objective: str
    name: str
    document: Callable[[], dict[str, Any]]
    methods: tuple[str, ...] = WITHOUT_NODES


ROWS = (
    Row(
        objective="rate",
        name="table",
        document=lambda: _document(THREE, CODE, routing={"form": "table"}),
        methods=(*WITHOUT_NODES, "plain", "saasbo"),
    ),
    Row(objective="placed", name="table, nodes 1", document=partial(_fragmented, 1, CODE), methods=ON_NODES),
    Row(objective="placed", name="table, nodes 2", document=partial(_fragmented, 2, CODE), methods=ON_NODES),
    Row(
        objective="goals",
        name="pools",
        document=lambda: _document(
            TWO,
            MADE_UP,
            **POOLS,
            prices_usd_per_gpu_hour=PRICES,
            objective={"kind": "pareto", "goals": ["rate", "price"]},
        ),
        methods=(EXACT, "auto", "divider", "genetic", "random", NEIGHBOURS, "plain"),
    ),
    Row(
        objective="replayed",
        name="pools",
        document=lambda: _document(
            {"H200": 16, "H20": 32}, CODE, **POOLS, objective={"kind": "replayed", "requests": 1000, "replays": 4}
        ),
        methods=(EXACT, "auto", NEIGHBOURS),
    ),
    Row(objective="rate", name="pools", document=lambda: _document(TWO, MADE_UP, **POOLS)),
    Row(
        objective="robust",
        name="pools",
        document=lambda: _document(TWO, MADE_UP, **POOLS),
        methods=(EXACT, "divider", RISK),
    ),
)


class NeighbourProposer:
    """A search that looks around the best so far, without a model: moves as Bayesian optimisation ranks them."""

    name = NEIGHBOURS

    def __init__(self, space: Space, goals: tuple[Goal, ...] = ()) -> None:
        self.space, self.goals = space, goals
        self.seen: list[Trial] = []

    @property
    def ready(self) -> bool:
        """Once there is something to look around."""
        return len(self.seen) > 1

    def propose(self, count: int, _iteration: int, rng: np.random.Generator) -> list[dict[str, float]]:
        """The first new layouts of each move in turn."""
        values = np.array([self._values(trial) for trial in self.seen])
        best_first = [dict(self.seen[place].parameters) for place in ranking(values, rng)]
        layouts = {trial.layout for trial in self.seen}
        moves = moves_of(self.space)
        drawn = [neighbours(self.space, best_first, layouts, move, 4 * count, rng) for move in moves]
        in_turn = [row[place] for place in range(4 * count) for row in drawn if place < len(row)]
        return [neighbour.point for neighbour in in_turn[:count]]

    def _values(self, trial: Trial) -> list[float]:
        found = dict(trial.goals)
        signed = {goal: 1 if goal.maximised else -1 for goal in self.goals}
        return [sign * found.get(goal.value, -1e9 * sign) for goal, sign in signed.items()] or [trial.throughput_rps]

    def tell(self, trials: Sequence[Trial]) -> None:
        """Where to look around."""
        self.seen += [trial for trial in trials if trial.parameters and not trial.failed]

    def saved(self) -> bytes | None:
        """No library keeps it."""
        return None


class InDraws:
    """Judges layouts by the P10 of what their pools serve in draws of how fast servers are."""

    def __init__(self, evaluator: Evaluator, seed: int) -> None:
        self._evaluator = evaluator
        self.paces = drawn_paces(evaluator.prices, DRAWS, seed)
        self.rates_rps: dict[Layout, Sequence[float]] = {}  # of every layout that serves, a number a draw

    def __call__(self, layouts: Sequence[Layout], /) -> Iterator[Evaluation]:
        """As `Evaluator` does."""
        judged = list(self._evaluator(layouts))
        served = [one for one in judged if one.assignment is not None]
        fleets = [_as_started(one.assignment) for one in served if one.assignment is not None]
        rates = rates_in_draws(self._evaluator.question, fleets, self.paces) if fleets else []
        self.rates_rps |= {one.layout: row for one, row in zip(served, rates, strict=True)}
        p10 = {one.layout: P10.of(row) for one, row in zip(served, rates, strict=True)}
        return iter([replace(one, throughput_rps=p10.get(one.layout, 0.0)) for one in judged])


class RiskProposer:
    """Bayesian optimisation with BoTorch's risk measure: a process over layouts and draws, and the value at risk
    (90 %) of what it expects of a layout in RISK_DRAWS others, improved on."""

    name = RISK

    def __init__(self, space: Space, judge: InDraws) -> None:
        self.space, self._judge = space, judge
        self.points: list[dict[str, float]] = []
        self.rates_rps: list[Sequence[float]] = []

    @property
    def ready(self) -> bool:
        """Once there is something to fit to."""
        return len(self.points) > 1

    def propose(self, count: int, _iteration: int, rng: np.random.Generator) -> list[dict[str, float]]:
        """The next points, one after the other."""
        seed, axes = int(rng.integers(2**31 - 1)), self.space.parameters
        sites = np.array([[_share_of(point, axis) for axis in axes] for point in self.points])
        with reproducible(seed):
            points = self._climbed(torch.tensor(sites, dtype=torch.double), count)
        return [
            {axis.name: axis.low + share * (axis.high - axis.low) for axis, share in zip(axes, point, strict=True)}
            for point in points
        ]

    def _climbed(self, sites: torch.Tensor, count: int) -> list[list[float]]:
        own = torch.tensor(np.log(np.stack(list(self._judge.paces.values()), axis=1)), dtype=torch.double)
        low, high = own.min(dim=0).values, own.max(dim=0).values
        drawn = (own - low) / (high - low)
        others = torch.quasirandom.SobolEngine(drawn.shape[1], scramble=True).draw(RISK_DRAWS).double()
        inputs = torch.cat([torch.cat([site.expand(len(drawn), -1), drawn], dim=1) for site in sites])
        rates = torch.tensor(np.concatenate(self.rates_rps), dtype=torch.double)[:, None]
        model = SingleTaskGP(inputs, rates, input_transform=AppendFeatures(feature_set=others))
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        improvement = qLogNoisyExpectedImprovement(
            model,
            sites,
            sampler=SobolQMCNormalSampler(torch.Size([16])),
            objective=VaR(alpha=0.9, n_w=RISK_DRAWS),
            prune_baseline=True,
        )
        box = torch.tensor([[0.0] * sites.shape[1], [1.0] * sites.shape[1]], dtype=torch.double)
        points, _ = optimize_acqf(
            improvement, box, q=count, num_restarts=1, raw_samples=16, options={"maxiter": 30}, sequential=True
        )
        return [[float(share) for share in point] for point in points]

    def tell(self, trials: Sequence[Trial]) -> None:
        """What became of a round: a layout that serves nothing does so in every draw."""
        for trial in trials:
            if trial.parameters and not trial.failed:
                self.points.append(dict(trial.parameters))
                self.rates_rps.append(self._judge.rates_rps.get(trial.layout, [0.0] * DRAWS))

    def saved(self) -> bytes | None:
        """No library keeps it."""
        return None


def _share_of(point: Mapping[str, float], axis: Parameter) -> float:
    return (point[axis.name] - axis.low) / (axis.high - axis.low)


def _as_started(assignment: Assignment) -> tuple[BucketPool, ...]:
    """Pools whose routers weigh them as predicted."""
    return tuple(replace(pool, share=1.0) for pool in assignment.pools)


def trial(row: Row, method: str, seed: int) -> tuple[float, int]:
    """(value, evaluations) of one trial."""
    scenario = scenario_from_document(row.document(), origin=row.name, base=Path(), summarize=summarize)
    keys = {**BUDGET, **METHODS[method], "seed": seed}
    search = _search(scenario.search, keys)
    return _OF_OBJECTIVE[row.objective](replace(scenario, search=search), method)


def _search(settings: SearchSettings, keys: Mapping[str, Any]) -> SearchSettings:
    typed = {name: type(getattr(settings, name))(value) for name, value in keys.items()}
    return replace(settings, **typed)


def _proposer(method: str, judge: EvaluateLayouts | None = None) -> Any:
    """What a search asks for its proposer: that of neighbours or risks in place of chance where that is the method."""
    kept = outer_loop.proposer_of

    def chosen(space: Space, settings: SearchSettings, goals: tuple[Goal, ...] = (), reference: Any = ()) -> Any:
        if method == RISK:
            assert isinstance(judge, InDraws)
            return RiskProposer(space, judge)
        return NeighbourProposer(space, goals) if method == NEIGHBOURS else kept(space, settings, goals, reference)

    return patch.object(outer_loop, "proposer_of", chosen)


def _layouts(scenario: Scenario, method: str) -> tuple[float, int]:
    """The programme's answer judged as any layout is, or a search; `auto` begins with the answer."""
    evaluator = Evaluator(question_of(scenario))
    if method == EXACT:
        return evaluator.evaluate(_solved(scenario, evaluator)).throughput_rps, 1
    record = _searched(scenario, evaluator, method).record
    return record.trials[record.best_trial].throughput_rps, len(record.trials)


def _solved(scenario: Scenario, evaluator: Evaluator) -> Layout:
    """By the programme for the rate, which sees no nodes."""
    if not scenario.bucketed:
        fastest = replace(scenario, objective=ObjectiveSettings())
        return best_with_queues(fastest, evaluator, solve_layout(fastest, evaluator).layout)
    choice = solve_buckets(evaluator)
    layout = layout_of(choice.priced.pools)
    evaluator.remember_pools(layout, choice.priced, choice.solver, optimal=choice.proven)
    return layout


def _searched(
    scenario: Scenario, evaluator: Evaluator, method: str, judge: EvaluateLayouts | None = None
) -> SearchResult:
    ground = None if scenario.cluster is None else Ground(cluster=scenario.cluster, placement=scenario.placement)

    def seeds() -> Sequence[Proposal]:
        if method == RISK:  # the exact answer, and those of a slow, a middling and a fast draw
            return list(dict.fromkeys(_of_draws(scenario, judge)))
        if not method.startswith("auto"):
            return ()
        if scenario.bucketed:
            return seeds_of_pools(scenario, evaluator, _solved(scenario, evaluator))
        return seeds_of(scenario, evaluator)

    aim = Aim(objective=scenario.objective, reference=reference_values(scenario))
    with _proposer(method, judge):
        return optimize(scenario.inventory, scenario.search, judge or evaluator, aim=aim, seeds=seeds, ground=ground)


def _replayed(scenario: Scenario, method: str) -> tuple[float, int]:
    """Who is replayed: the model of both judges chooses (auto), chance, or the model of queues alone."""

    def order(
        _judged: Sequence[Judgement], features: Sequence[Any], cheap: Sequence[float], count: int, seed: int
    ) -> list[int]:
        places = np.arange(len(features))
        shuffled = np.random.default_rng(seed).permutation(places)
        by_queues = np.argsort(-np.asarray(cheap), kind="stable")
        return [int(place) for place in (shuffled if method == "random" else by_queues)[:count]]

    if method == EXACT:
        scenario = replace(
            scenario,
            objective=replace(scenario.objective, replays=1),
            search=_search(scenario.search, {"iterations": 1, "batch_size": 1}),
        )
    chooser = replayed_rounds.most_promising if method == "auto" else order
    with patch.object(replayed_rounds, "most_promising", chooser):
        made = proposer_of(scenario).propose(Evaluator(question_of(scenario)), no_progress, None)
    assert made.buckets is not None
    assert made.buckets.replayed is not None
    rates = made.buckets.replayed.candidate if made.buckets.replayed.chosen else made.buckets.replayed.solved
    assert rates is not None
    return rates.fresh_rps or 0.0, made.buckets.replayed.replayed


def _robust(scenario: Scenario, method: str) -> tuple[float, int]:
    """The two-stage programme with its own draws, or a search of layouts by its measure in few draws."""
    evaluator, seed = Evaluator(question_of(scenario)), scenario.search.seed
    if method == EXACT:
        return P10.of(robust_choice(evaluator, P10, FRESH_DRAWS).fresh_rps), 4
    result = _searched(scenario, evaluator, method, InDraws(evaluator, seed))
    assert result.best is not None
    assert result.best.assignment is not None
    paces = drawn_paces(evaluator.prices, FRESH_DRAWS, seed + FRESH)
    (rates,) = rates_in_draws(evaluator.question, [_as_started(result.best.assignment)], paces)
    return P10.of(rates), len(result.record.trials)


def _of_draws(scenario: Scenario, judge: EvaluateLayouts | None) -> Iterator[Proposal]:
    """Pools that are best as predicted, and in three of the draws."""
    assert isinstance(judge, InDraws)
    order = np.argsort(sum(judge.paces.values()))
    known = [{}, *({key: float(row[draw]) for key, row in judge.paces.items()} for draw in order[[0, DRAWS // 2, -1]])]
    for paces in known:
        choice = solve_buckets(Evaluator(question_of(at_paces(scenario, paces))))
        yield Proposal(parameters=(), layout=layout_of(choice.priced.pools), generator=EXACT)


def _goals(scenario: Scenario, method: str) -> tuple[float, int]:
    evaluator, goals, reference = Evaluator(question_of(scenario)), scenario.objective.goals, reference_values(scenario)
    if method == EXACT:
        made = list(_of_budgets(scenario, evaluator))
        return hypervolume(made, goals, reference), len(made)
    record = _searched(scenario, evaluator, method).record
    return hypervolume(record.trials, goals, reference), len(record.trials)


def _of_budgets(scenario: Scenario, evaluator: Evaluator) -> Iterator[Trial]:
    """The best pools of equally spaced rents, from a twelfth of the inventory's to all of it."""
    every = scenario.inventory.price_usd_per_hour
    for place in range(1, BUDGETS + 1):
        budget = ObjectiveSettings(kind=ObjectiveKind.BUDGET, budget_usd_per_hour=every * place / BUDGETS)
        asked = replace(scenario, objective=budget)
        try:
            choice = solve_buckets(Evaluator(question_of(asked)))
        except Exception:  # noqa: BLE001  (so little rents nothing that serves)
            continue
        layout = layout_of(choice.priced.pools)
        evaluator.remember_pools(layout, choice.priced, choice.solver)
        judged = evaluator.evaluate(layout)
        yield Trial(
            index=place,
            iteration=0,
            parameters=(),
            layout=layout,
            throughput_rps=judged.throughput_rps,
            generator=EXACT,
            goals=judged.goals,
        )


_OF_OBJECTIVE: Mapping[str, Callable[[Scenario, str], tuple[float, int]]] = {
    "rate": _layouts,
    "placed": _layouts,
    "replayed": _replayed,
    "robust": _robust,
    "goals": _goals,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a trial: the plan's value, layouts that were judged, CPU-seconds."""

    value: float
    evaluations: int
    cpu_s: float


Key = tuple[str, str, str]


def read() -> dict[Key, list[Outcome]]:
    """The trials of each objective, scenario and method, by seed."""
    trials: dict[Key, list[Outcome]] = {}
    if RESULTS.exists():
        with RESULTS.open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                outcome = Outcome(
                    value=float(row["value"]), evaluations=int(row["evaluations"]), cpu_s=float(row["cpu_s"])
                )
                trials.setdefault((row["objective"], row["scenario"], row["method"]), []).append(outcome)
    return trials


def interval(values: Sequence[float]) -> float:
    """Half the width of the mean's 95 % interval (Student)."""
    return float(student.ppf(0.975, len(values) - 1)) * statistics.stdev(values) / len(values) ** 0.5


def table() -> str:
    """The guide's: methods by objectives and scenarios, each the mean with its interval, and CPU-seconds a trial."""
    trials = read()
    scenarios = list(dict.fromkeys((row.objective, row.name) for row in ROWS))
    head = ["`search`", *(f"{objective}: {name}" for objective, name in scenarios)]
    lines = [head, [":---", *["---:"] * len(scenarios)]]
    for method in METHODS:
        cells = [_cell(trials.get((*scenario, method), [])) for scenario in scenarios]
        lines.append([method, *cells])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _cell(outcomes: Sequence[Outcome]) -> str:
    if not outcomes:
        return ""
    values = [outcome.value for outcome in outcomes]
    spent = statistics.mean(outcome.cpu_s for outcome in outcomes)
    return f"{statistics.mean(values):.1f} ± {interval(values):.1f}, {spent:.2g} s"


def make(only: Sequence[str] = ()) -> None:
    """The trials that the file lacks, of objectives whose name is given, or of all."""
    made = {key: len(trials) for key, trials in read().items()}
    with RESULTS.open("a", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        if not made:
            writer.writerow(["objective", "scenario", "method", "seed", "value", "evaluations", "cpu_s"])
        for seed in SEEDS:
            for row in ROWS:
                for method in row.methods:
                    key = row.objective, row.name, method
                    if made.get(key, 0) > seed or (only and row.objective not in only):
                        continue
                    start = time.process_time()
                    value, evaluations = trial(row, method, seed)
                    spent = time.process_time() - start
                    writer.writerow([*key, seed, f"{value:.3f}", evaluations, f"{spent:.2f}"])
                    file.flush()


if __name__ == "__main__":
    make(sys.argv[1:])
    sys.stdout.write(table() + "\n")
