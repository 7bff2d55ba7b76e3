"""A new plan near the one that runs: what plans are worth against what they change, and the choice.

The programme of buckets starts from the servers that run (`assignment.buckets.change_rows`). Points of the frontier
are its best pools for at most so many GPUs touched. Which of all the plans found is chosen: `near`.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial

from planner.assignment import (
    BucketAnswer,
    BucketOffer,
    ChangeTerms,
    Partition,
    best_pools,
    least_changed_pools,
    simplest_pools,
)
from planner.domain import AssignmentSettings, ObjectiveSettings, Plan
from planner.domain.changes import ChangeLimits, ChangePoint, ChangeSettings
from planner.errors import InfeasibleError, SolverError
from planner.evaluation.buckets.deployed import DeployedPrices
from planner.evaluation.evaluator import Evaluator
from planner.proposing.buckets.infeasible import stocks_of
from planner.proposing.buckets.pools import BucketChoice, solve_buckets
from planner.proposing.certificate import layout_settings, require_prices, single
from planner.replanning.changes import ChangeClock
from planner.replanning.near import MET, Choosing, NearPlan, NearService, deployed_pools, start_usd

STEPS = (0.0, 0.05, 0.1, 0.2, 0.4, 0.7)
"""Of the GPUs that the largest change touches: where the frontier has points."""

MOST_RAISES = 6
POINT_GAP, POINT_WORK = 0.005, 5.0
SIMPLE_WORK = 5.0
LITTLE = 0.01
"""Of what the slowest server alone carries: whoever serves that serves at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replanned:
    """The choice among `points`, the plan from scratch (None: not solved for), and what serves without any change
    (None: nothing does)."""

    chosen: NearPlan
    points: tuple[ChangePoint, ...]
    scratch: BucketChoice | None
    anew: NearPlan | None
    current: NearPlan | None


class Replanner:
    """What the servers of a plan may become for the question of `evaluator`, which takes their prices from here."""

    def __init__(self, before: Plan, evaluator: Evaluator, settings: ChangeSettings, limits: ChangeLimits) -> None:
        self.limits, self.evaluator, question = limits, evaluator, evaluator.question
        require_prices(question.scenario)
        clock = ChangeClock.of(before, question.scenario, settings)
        self.prices = DeployedPrices(
            question,
            tuple(deployed_pools(before, question, clock)),
            start_usd=None if limits.horizon_hours is None else partial(start_usd, question, clock),
            turns_only=limits.turns_only,
        )
        evaluator.price_with(self.prices)
        self.objective = single(question.scenario.objective)
        self._sign = -1.0 if self.objective.minimises else 1.0
        self._stocks = stocks_of(question, self.objective)
        self._solver, self._simplicity = layout_settings(question.scenario), question.scenario.simplicity
        self._choosing = Choosing(limits=limits, sign=self._sign, simplicity=self._simplicity)
        self.service = NearService(
            before=before,
            question=question,
            objective=self.objective,
            settings=settings,
            horizon_hours=limits.horizon_hours,
        )

    def replanned(self, *, frontier: bool = True) -> Replanned:
        """The choice, and the `frontier` where it is wanted. Raises InfeasibleError where nothing within the limits
        serves."""
        scratch = None if self._turns_alone else solve_buckets(self.evaluator)
        anew = None
        if scratch is not None:
            anew = self.service.near(scratch.priced.pools, scratch.bound, scratch.solver, "from scratch")
        current = self._unchanged()
        plans = [near for near in (current, anew) if near is not None]
        plans += self._near(anew, current)
        if frontier and not self._turns_alone:
            plans += self._between(max((near.change.gpus_touched for near in plans), default=0))
        chosen = self._choosing.choice([near for near in plans if self.service.serves(near)], anew)
        if chosen is None:
            raise self._beyond_limits()
        return Replanned(
            chosen=chosen,
            points=self._choosing.frontier(plans, chosen),
            scratch=scratch,
            anew=anew,
            current=current,
        )

    @property
    def _turns_alone(self) -> bool:
        """Whether nothing but turns is looked at: it is quick, and needs no plan from scratch beside it."""
        return self.limits.turns_only and not self.objective.rents

    def _terms(self, most_gpus: int | None = None, *, limited: bool = True) -> ChangeTerms:
        limits, hours = self.limits, self.limits.horizon_hours
        if not limited:
            return ChangeTerms(most_gpus=most_gpus)
        servers = sum(group.pool.count for group in self.prices.deployed)
        gpu_limits = [count for count in (most_gpus, limits.most_gpus) if count is not None]
        return ChangeTerms(
            most_gpus=min(gpu_limits, default=None),
            least_running_on=-int(-(limits.least_running_on or 0.0) * servers // 1),
            turns_only=limits.turns_only,
            usd_weight=0.0 if hours is None else 1.0 / hours,
        )

    def _offers(self, terms: ChangeTerms) -> tuple[BucketOffer, ...]:
        return tuple(replace(offer, terms=terms) for offer in self._every_offer)

    @cached_property
    def _every_offer(self) -> tuple[BucketOffer, ...]:
        return self.prices.changed_offers(self._stocks, self.prices.partitions, ChangeTerms())

    def _unchanged(self) -> NearPlan | None:
        """The best of what runs, with no GPU touched: the very pools where others gain next to nothing."""
        runs, routed = self.service.as_it_runs(), None
        if runs is not None and self._turns_alone:
            return runs
        with suppress(InfeasibleError, SolverError):
            routed = self._best(self._terms(0, limited=False), self._solver, "nothing touched")
        if runs is None or routed is None:
            return runs or routed
        bound = routed.bound
        if self._sign * routed.value > self._sign * runs.value * (1 + self._sign * self._simplicity):
            return routed
        return replace(runs, bound=bound)

    def _near(self, anew: NearPlan | None, current: NearPlan | None) -> list[NearPlan]:
        """What the programme finds within the limits: the fewest GPUs touched near the plan `anew`, or the best of all;
        nothing where what runs is as good but for what is given up."""
        try:
            if self.limits.horizon_hours is None and anew is not None:
                if current is not None and self._choosing.near_enough(current, anew):
                    return []
                near = self._least_changed(anew)
                if near is not None or self._choosing.allows(anew):
                    return [near] if near is not None else []
            return self._best_within_limits(current)
        except InfeasibleError:
            raise self._beyond_limits() from None

    def _best_within_limits(self, current: NearPlan | None) -> list[NearPlan]:
        """The best of all that may be, and of turns the fewest that come near to it."""
        quick = self._turns_alone and self.limits.horizon_hours is None
        best = self._best(self._terms(), self._solver, simple=not quick)
        if not quick or (current is not None and self._choosing.near_enough(current, best)):
            return [best]
        return [best, *filter(None, [self._least_changed(best)])]

    def _least_changed(self, anew: NearPlan) -> NearPlan | None:
        """The fewest GPUs touched that come near to the plan `anew`; None where limits keep all plans from it.

        What the programme promises pools have to keep together: it is asked for more until they do."""
        value, objective = anew.value, self.objective
        for _ in range(MOST_RAISES):
            gpus = self._least_gpus(objective, value, self._partitions(anew))
            if gpus is None:
                break
            try:
                near = self._best(self._terms(gpus), self._solver, partitions=self._partitions(anew))
            except InfeasibleError:  # a target that these pools miss together: the plan from scratch is left
                break
            if self._choosing.near_enough(near, anew):
                return replace(near, bound=anew.bound) if self._turns_alone else near
            value *= anew.value * (1 - self._sign * self.limits.give_up) / near.value * (1 + self._sign * MET)
        return None

    def _partitions(self, best: NearPlan) -> Sequence[Partition]:
        """Where fewer changes are looked for: turns alone are to be quick, and keep to the buckets of the best."""
        return (best.partition,) if self._turns_alone and best.partition is not None else self.prices.partitions

    def _least_gpus(self, objective: ObjectiveSettings, value: float, partitions: Sequence[Partition]) -> int | None:
        """GPUs that any pools touch which come so near to a value; None where there are none within the limits."""
        offers = [(offer, value) for offer in self._offers(self._terms())]
        return self._fewest_gpus(offers, partitions, objective, self.limits.give_up)

    def _fewest_gpus(
        self,
        offers: Iterable[tuple[BucketOffer, float]],
        partitions: Sequence[Partition],
        objective: ObjectiveSettings,
        within: float,
    ) -> int | None:
        """Over offers, each with the value to come near to, as `within` has it."""
        gpus = []
        for offer, value in offers:
            # An offer without such pools says nothing of the others.
            with suppress(InfeasibleError, SolverError):
                change = least_changed_pools(offer, partitions, objective, self._solver, value=value, within=within)
                gpus.append(change.gpus)
        return min(gpus, default=None)

    def _best(
        self,
        terms: ChangeTerms,
        settings: AssignmentSettings,
        label: str = "",
        *,
        simple: bool = True,
        partitions: Sequence[Partition] = (),
    ) -> NearPlan:
        """The best pools within terms, as simple as the scenario wants them, of all partitions where none are named; a
        target is met by the pools together.

        Raises InfeasibleError where there are none, SolverError where none were found within the work limit."""
        target_rps, objective, bound = self.objective.target_rps, self.objective, None
        offers = self._offers(terms)
        for _ in range(MOST_RAISES):
            offer, answer, of_all = self._solved(offers, partitions or self.prices.partitions, objective, settings)
            bound = of_all if bound is None else bound
            answers = [self._simplest(offer, answer, objective), answer] if simple else [answer]
            for pools in dict.fromkeys(answers):
                near = self.service.near(self.prices.pools(pools, self._stocks), bound, pools.solver, label)
                if self.service.serves(near):
                    return replace(near, partition=pools.partition)
            if not target_rps:
                break
            # Together the pools reach less than the programme adds up: by as much more is asked for next.
            raised_rps = objective.target_rps * target_rps / max(near.priced.rate_rps, MET) * (1 + MET)
            objective = replace(objective, target_rps=raised_rps)
        raise InfeasibleError(
            "changes: the target is not reached with the queues of the pools together.", hint="Lower the target."
        )

    def _solved(
        self,
        offers: Sequence[BucketOffer],
        partitions: Sequence[Partition],
        objective: ObjectiveSettings,
        settings: AssignmentSettings,
    ) -> tuple[BucketOffer, BucketAnswer, float]:
        """The best pools of any family of GPU types, and the bound of all."""
        answers, errors = [], list[InfeasibleError]()
        for offer in offers:
            try:
                answers.append((offer, best_pools(offer, partitions, objective, settings)))
            except InfeasibleError as error:
                errors.append(error)
        if not answers:
            raise errors[0] if errors else InfeasibleError("changes: no GPUs are offered.", hint="Offer some.")
        offer, answer = max(answers, key=lambda pair: self._sign * pair[1].value)
        return offer, answer, self._sign * max(self._sign * other.bound for _, other in answers)

    def _simplest(self, offer: BucketOffer, answer: BucketAnswer, objective: ObjectiveSettings) -> BucketAnswer:
        if not self._simplicity:
            return answer
        limits = replace(self._solver, work_limit=SIMPLE_WORK, gap=0.0)
        try:
            return simplest_pools(offer, answer, objective, limits, within=self._simplicity)
        except (InfeasibleError, SolverError):
            return answer

    def _between(self, gpus_of_best: int) -> list[NearPlan]:
        """Points of the frontier, where they are found within the work limit."""
        work = min(POINT_WORK, self._solver.work_limit)
        settings = replace(self._solver, gap=max(POINT_GAP, self._solver.gap), work_limit=work)
        points = []
        for gpus in sorted({int(share * gpus_of_best) for share in STEPS} - {0}):
            with suppress(InfeasibleError, SolverError):
                terms = self._terms(gpus, limited=False)
                near = self._best(terms, settings, f"at most {gpus} GPUs touched", simple=False)
                points += [near] if near.change.gpus_touched <= gpus else []
        return points

    def _beyond_limits(self) -> InfeasibleError:
        """What the least change is that serves at all, or what is asked for."""
        limits, scenario = self.limits, self.evaluator.question.scenario
        limit_words = [
            f"most_gpus {limits.most_gpus}" * (limits.most_gpus is not None),
            f"least_running_on {limits.least_running_on}" * (limits.least_running_on is not None),
            "turns_only" * limits.turns_only,
        ]
        words = ", ".join(filter(None, limit_words)) or "none"
        fewest = self._least_that_serves()
        remedy = "Offer more GPUs, or lower the target." if fewest is None else f"Allow {fewest} GPUs to be touched."
        also = " (of the shapes that run)" * limits.turns_only
        needs = "no change would do" if fewest is None else f"the least that would do touches {fewest} GPUs{also}"
        return InfeasibleError(
            f"scenario {scenario.name}: no plan within the limits of change ({words}) serves the workload"
            f"{f' at {self.objective.target_rps:g} requests/s' * bool(self.objective.target_rps)}; {needs}.",
            hint=remedy,
        )

    def _least_that_serves(self) -> int | None:
        row, charges = self.objective.kind.row, sum(stock.units * stock.charge for stock in self._stocks)
        per = max(charges, 1.0) if row.per_charge else 1.0
        # A value that whatever serves at all comes near to.
        offers = [
            (offer, charges if row.minimises else _little_rps(offer) / per)
            for offer in self._offers(self._terms(limited=False))
        ]
        return self._fewest_gpus(offers, self.prices.partitions, self.objective, MET)


def _little_rps(offer: BucketOffer) -> float:
    """A rate that any server of a bucket reaches easily: a fixed one may be within the solver's tolerances, which then
    finds nothing where there is something."""
    alone = [
        option.rate_rps / offer.probabilities[place]
        for place, options in offer.options.items()
        for option in options
        if option.rate_rps > 0 and offer.probabilities.get(place, 0.0) > 0
    ]
    return LITTLE * min(alone, default=1.0)
