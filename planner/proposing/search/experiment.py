"""Bayesian optimisation as an Ax experiment. The only file that imports Ax.

The experiment, its trials, data and storage are Ax's own; candidates come from Ax's modular BoTorch generator and, of
layouts, from the neighbourhood of good points, which its model ranks.
"""

import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from ax.adapter.registry import Cont_X_trans, Generators, Y_trans
from ax.adapter.torch import TorchAdapter
from ax.core.arm import Arm
from ax.core.data import Data
from ax.core.experiment import Experiment
from ax.core.generator_run import GeneratorRun
from ax.core.metric import Metric
from ax.core.objective import Objective
from ax.core.observation import ObservationFeatures
from ax.core.optimization_config import MultiObjectiveOptimizationConfig, OptimizationConfig
from ax.core.outcome_constraint import OutcomeConstraint
from ax.core.parameter import ChoiceParameter, ParameterType, RangeParameter
from ax.core.parameter_constraint import ParameterConstraint
from ax.core.search_space import SearchSpace
from ax.generators.torch.botorch_modular.surrogate import SurrogateSpec
from ax.generators.torch.botorch_modular.utils import ModelConfig
from ax.storage.json_store.encoder import object_to_json
from ax.storage.json_store.registry import CORE_CLASS_ENCODER_REGISTRY, CORE_ENCODER_REGISTRY
from ax.utils.common.logger import set_ax_logger_levels

from planner.domain import Candidates, Goal, SearchSettings, Surrogate, Trial
from planner.proposing.search.neighbours import Neighbour, moves_of, neighbours
from planner.proposing.search.promise import least_weighted, most_promising, ranking
from planner.proposing.search.space import Parameter, Point, Space
from planner.proposing.search.surrogate import Recipe, log_expected_improvement, recipe, reproducible

METRIC = "throughput_rps"
GENERATOR = "botorch"
GLOBAL_SHARE = 0.125  # of a batch: climbed to in the whole space
SEVERAL_GLOBAL_SHARE = 0.25  # the same for several goals, where the frontier is wide
CHANCE_SHARE = 0.0625
SET_SIZE = 192
APART = 0.02  # of an axis
CLOCKS = frozenset({"time_created", "time_run_started", "time_completed"})
NO_TIME = "1970-01-01 00:00:00.000000"


class AxProposer:
    """Proposes points by what a model of everything told so far promises.

    By `search.candidates` every point maximises the acquisition function over the whole space, as in the thesis; or an
    eighth of a batch maximises expected improvement over the whole space (of several goals a quarter, that of the
    hypervolume), a sixteenth is left to chance. The rest are the most promising neighbours of good points, drawn by
    chance: layouts are whole numbers, a divisor more or less decides, and among neighbours the model compares layouts,
    not the points between them.
    """

    name = GENERATOR

    def __init__(
        self,
        space: Space,
        settings: SearchSettings,
        goals: tuple[Goal, ...] = (),
        reference: tuple[float, ...] = (),
    ) -> None:
        set_ax_logger_levels(logging.ERROR)  # chatter; failures raise
        self.space = space
        self.settings = settings
        self.goals = goals
        self.reference = reference
        self.metrics = tuple(goal.value for goal in goals) or (METRIC,)
        self.signs = np.array([1.0 if goal.maximised else -1.0 for goal in goals] or [1.0])
        self.points: list[dict[str, float]] = []  # of told trials, with `values`: more is better in every column
        self.values: list[list[float]] = []
        self.experiment = Experiment(
            name="layout",
            search_space=_search_space(space),
            metrics=[
                Metric(name=name, lower_is_better=bool(sign < 0))
                for name, sign in zip(self.metrics, self.signs, strict=True)
            ],
            optimization_config=_optimization_config(self.metrics, self.signs, reference),
        )

    @property
    def ready(self) -> bool:
        """A model needs two points."""
        return len(self.points) > 1

    def propose(self, count: int, _iteration: int, rng: np.random.Generator) -> list[dict[str, float]]:
        """Fewer than `count` points, the rest is for chance; all sampling is seeded from `rng`."""
        seed = int(rng.integers(2**31 - 1))
        model_recipe = recipe(self.settings.surrogate, self._groups(), seed, len(self.metrics))
        climbed, near = self._shares(count)
        with reproducible(seed):
            adapter = _fitted(self.experiment, model_recipe, transforms=[*Cont_X_trans, *Y_trans])
            options = {"optimizer_kwargs": dict(model_recipe.optimizer_options)}
            run = adapter.gen(climbed, model_gen_options=options)
            points = [{name: float(value) for name, value in arm.parameters.items()} for arm in run.arms]
            return points + (self._near(adapter, near, points, rng) if near else [])

    def _shares(self, count: int) -> tuple[int, int]:
        """Of so many points, how many are climbed to, and how many are neighbours."""
        if self.settings.candidates is Candidates.ACQUISITION:
            return count, 0
        # Neighbours alone would never leave the places that are known.
        climbed = max(1, round((SEVERAL_GLOBAL_SHARE if self.goals else GLOBAL_SHARE) * count))
        return climbed, count - climbed - int(CHANCE_SHARE * count)

    @property
    def _names(self) -> list[str]:
        """Of the axes, in the order in which Ax hands them to its models: that of the search space."""
        return list(self.experiment.search_space.parameters)

    def _groups(self) -> list[list[int]]:
        """Columns of each GPU type."""
        names, types = self._names, dict.fromkeys(axis.gpu for axis in self.space.parameters)
        return [[names.index(axis.name) for axis in self.space.parameters if axis.gpu == gpu] for gpu in types]

    def _near(
        self, adapter: TorchAdapter, count: int, chosen: Sequence[dict[str, float]], rng: np.random.Generator
    ) -> list[dict[str, float]]:
        """`count` promising neighbours of good points, not of the `chosen` layouts."""
        values = np.array(self.values)
        layouts = {self.space.layout(point) for point in (*self.points, *chosen)}
        sets = []
        for move in moves_of(self.space):
            best_first = [self.points[k] for k in ranking(values, rng)]
            drawn = neighbours(self.space, best_first, layouts, move, SET_SIZE, rng)
            if drawn:
                sets.append(list(zip(self._scores(adapter, drawn, values, rng), drawn, strict=True)))
        return [neighbour.point for neighbour in most_promising(sets, count, self._apart)]

    def _apart(self, neighbour: Neighbour, other: Neighbour) -> bool:
        """Whether some axis tells them apart: a batch should not ask the same question twice."""
        return any(
            abs(neighbour.point[axis.name] - other.point[axis.name]) > APART * (axis.high - axis.low)
            for axis in self.space.parameters
        )

    def _scores(
        self, adapter: TorchAdapter, candidates: Sequence[Neighbour], values: np.ndarray, rng: np.random.Generator
    ) -> list[float]:
        """What the model promises of each candidate."""
        if not self.goals:
            model = adapter.generator.surrogate.model  # of standardised rates over the box, as Ax transforms them
            axes = {axis.name: axis for axis in self.space.parameters}
            in_order = [axes[name] for name in self._names]
            rows = np.array([[_share(candidate.point, axis) for axis in in_order] for candidate in candidates])
            return [*map(float, log_expected_improvement(model, rows, float(model.train_targets.max())))]
        features = [ObservationFeatures(parameters=dict(candidate.point)) for candidate in candidates]
        mean, covariance = adapter.predict(features)
        means = np.array([mean[name] for name in self.metrics]).T * self.signs
        deviations = np.sqrt(np.array([covariance[name][name] for name in self.metrics]).T.clip(min=0.0))
        drawn = means + deviations * rng.standard_normal(means.shape)
        return [float(score) for score in least_weighted(drawn, values, rng)]

    def tell(self, trials: Sequence[Trial]) -> None:
        """Record a round as one batch trial, observed without noise; evaluations that broke off are abandoned arms.

        What serves nothing counts as no use in any goal. Layouts that the encoding cannot express are not Ax's.
        """
        by_signature: dict[str, tuple[Arm, Trial]] = {}
        for trial in trials:
            if trial.parameters:
                arm = Arm(parameters=dict(trial.parameters))
                # Ax takes a point once in a batch, and two seeds may have the same.
                by_signature.setdefault(arm.signature, (arm, trial))
        if not by_signature:
            return
        batch = self.experiment.new_batch_trial(
            generator_runs=[GeneratorRun(arms=[arm for arm, _ in by_signature.values()])]
        )
        batch.mark_running(no_runner_required=True)
        rows = []
        for arm in batch.arms:
            trial = by_signature[arm.signature][1]
            if trial.failed:
                batch.mark_arm_abandoned(arm.name, trial.error)
                continue
            values = self._values(trial)
            rows += [_observation(batch.index, arm.name, *pair) for pair in zip(self.metrics, values, strict=True)]
            self.points.append(dict(trial.parameters))
            self.values.append([float(v) for v in np.array(values) * self.signs])
        if rows:
            self.experiment.attach_data(Data(df=pd.DataFrame(rows)))
        batch.mark_completed()

    def _values(self, trial: Trial) -> list[float]:
        if not self.goals:
            return [trial.throughput_rps]
        value_of = dict(trial.goals)
        return [value_of.get(goal.value, worst) for goal, worst in zip(self.goals, self.reference, strict=True)]

    def saved(self) -> bytes:
        """The experiment as Ax stores it (`ax.storage.json_store.load.load_experiment` reads it), without clocks."""
        document = object_to_json(
            self.experiment,
            encoder_registry=CORE_ENCODER_REGISTRY,
            class_encoder_registry=CORE_CLASS_ENCODER_REGISTRY,
        )
        return json.dumps(_timeless(document)).encode()


def _share(point: Point, axis: Parameter) -> float:
    """Where a point lies on an axis, from 0 to 1."""
    return (point[axis.name] - axis.low) / (axis.high - axis.low)


class DialProposer:
    """Proposes settings of dials, ordered whole numbers: all of them by the library, whose model sees places among the
    choices and whose acquisition is climbed over those alone.

    `dials`: values by name, ascending. `reference`: by goal the value that is no use any more; more is better.
    """

    def __init__(self, dials: Mapping[str, Sequence[int]], reference: Sequence[float]) -> None:
        set_ax_logger_levels(logging.ERROR)
        self._metrics = tuple(f"goal_{number}" for number in range(len(reference)))
        self._reference = tuple(reference)
        self._space = SearchSpace(
            parameters=[
                ChoiceParameter(
                    name=name, parameter_type=ParameterType.INT, values=list(values), is_ordered=True, sort_values=True
                )
                for name, values in dials.items()
            ]
        )

    def propose(
        self, judged: Sequence[tuple[Mapping[str, int], Sequence[float]]], count: int, seed: int
    ) -> list[dict[str, int]]:
        """At most `count` settings, from all that was `judged` so far: settings that differ, with a value a goal."""
        columns = list(range(len(self._space.parameters)))
        model_recipe = recipe(Surrogate.GP, [columns], seed, len(self._metrics))
        with reproducible(seed):
            adapter = _fitted(self._experiment(judged), model_recipe)
            run = adapter.gen(count)
        return [{name: int(value) for name, value in arm.parameters.items()} for arm in run.arms]

    def _experiment(self, judged: Sequence[tuple[Mapping[str, int], Sequence[float]]]) -> Experiment:
        signs = np.ones(len(self._metrics))
        experiment = Experiment(
            name="dials",
            search_space=self._space,
            metrics=[Metric(name=name, lower_is_better=False) for name in self._metrics],
            optimization_config=_optimization_config(self._metrics, signs, self._reference),
        )
        arms = [Arm(parameters=dict(setting)) for setting, _ in judged]
        batch = experiment.new_batch_trial(generator_runs=[GeneratorRun(arms=arms)])
        batch.mark_running(no_runner_required=True)
        names = {arm.signature: arm.name for arm in batch.arms}
        rows = [
            _observation(batch.index, names[arm.signature], metric, value)
            for arm, (_, values) in zip(arms, judged, strict=True)
            for metric, value in zip(self._metrics, values, strict=True)
        ]
        experiment.attach_data(Data(df=pd.DataFrame(rows)))
        batch.mark_completed()
        return experiment


def _fitted(experiment: Experiment, model_recipe: Recipe, **options: Any) -> TorchAdapter:
    return Generators.BOTORCH_MODULAR(
        experiment=experiment,
        data=experiment.lookup_data(),
        surrogate_spec=SurrogateSpec(model_configs=[ModelConfig(**model_recipe.model)], allow_batched_models=False),
        botorch_acqf_class=model_recipe.acquisition_class,
        botorch_acqf_options=dict(model_recipe.acquisition_options),
        **options,
    )


def _optimization_config(metrics: Sequence[str], signs: np.ndarray, reference: Sequence[float]) -> OptimizationConfig:
    names = {name: name for name in metrics}
    if len(metrics) == 1:
        return OptimizationConfig(objective=Objective(expression=metrics[0], metric_name_to_signature=names))
    signed = ", ".join(name if sign > 0 else f"-{name}" for name, sign in zip(metrics, signs, strict=True))
    return MultiObjectiveOptimizationConfig(
        objective=Objective(expression=signed, metric_name_to_signature=names),
        objective_thresholds=[
            OutcomeConstraint(
                expression=f"{name} {'>=' if sign > 0 else '<='} {_plain(worst)}", metric_name_to_signature={name: name}
            )
            for name, sign, worst in zip(metrics, signs, reference, strict=True)
        ],
    )


def _plain(bound: float) -> str:
    """As Ax writes it back: no exponent, no idle decimals."""
    return f"{bound:.6f}".rstrip("0").rstrip(".")


def _observation(trial: int, arm: str, metric: str, value: float) -> dict[str, object]:
    return {
        "trial_index": trial,
        "arm_name": arm,
        "metric_name": metric,
        "metric_signature": metric,
        "mean": value,
        "sem": 0.0,
    }


def _search_space(space: Space) -> SearchSpace:
    return SearchSpace(
        parameters=[
            RangeParameter(name=p.name, parameter_type=ParameterType.FLOAT, lower=p.low, upper=p.high)
            for p in space.parameters
        ],
        parameter_constraints=[
            ParameterConstraint(inequality=f"{' + '.join(limit.names)} <= {limit.upper}") for limit in space.limits
        ],
    )


def _timeless(document: object) -> object:
    """Clocks set to nothing, so that equal searches are stored as equal bytes."""
    if isinstance(document, dict):
        return {
            key: {**value, "value": NO_TIME} if key in CLOCKS and isinstance(value, dict) else _timeless(value)
            for key, value in document.items()
        }
    return [_timeless(item) for item in document] if isinstance(document, list) else document
