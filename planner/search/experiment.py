"""Bayesian optimisation as an Ax experiment. The only file that imports Ax.

The experiment, its trials and data are Ax's own; proposals come from Ax's modular BoTorch generator.
"""

import logging
from collections.abc import Sequence

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
from ax.core.optimization_config import OptimizationConfig
from ax.core.parameter import ParameterType, RangeParameter
from ax.core.parameter_constraint import ParameterConstraint
from ax.core.search_space import SearchSpace
from ax.generators.torch.botorch_modular.surrogate import SurrogateSpec
from ax.generators.torch.botorch_modular.utils import ModelConfig

from planner.domain import Evaluation, SearchSettings
from planner.search.space import Parameter, Point, Space
from planner.search.surrogate import Recipe, recipe, reproducible

METRIC = "throughput_rps"
GENERATOR = "botorch"
NEIGHBOURHOOD = 0.25


class AxProposer:
    """Proposes points by expected improvement over everything told so far.

    A batch chosen from the whole space alone spreads thin once the good region is known, so half of it looks nearby.
    """

    name = GENERATOR

    def __init__(self, space: Space, settings: SearchSettings) -> None:
        logging.getLogger("ax").setLevel(logging.ERROR)
        self.space = space
        self.settings = settings
        self.experiment = Experiment(
            name="layout",
            search_space=_search_space(space, space.parameters),
            optimization_config=OptimizationConfig(
                objective=Objective(metric=Metric(name=METRIC, lower_is_better=False), minimize=False)
            ),
        )

    def propose(self, count: int, rng: np.random.Generator) -> list[dict[str, float]]:
        """`count` points: half from the whole space, half near the best so far; all sampling is seeded from `rng`."""
        seed = int(rng.integers(2**31 - 1))
        made = recipe(self.settings.surrogate, seed)
        near = count // 2
        with reproducible(seed):
            adapter = self._fit(made)
            options = {"optimizer_kwargs": dict(made.optimizer_options)}
            runs = [adapter.gen(count - near, model_gen_options=options)]
            if near:
                runs.append(adapter.gen(near, search_space=self._neighbourhood(), model_gen_options=options))
        return [{name: float(value) for name, value in arm.parameters.items()} for run in runs for arm in run.arms]

    def _fit(self, made: Recipe) -> TorchAdapter:
        model = ModelConfig(botorch_model_class=made.model_class, mll_options=dict(made.fit_options))
        return Generators.BOTORCH_MODULAR(
            experiment=self.experiment,
            data=self.experiment.lookup_data(),
            surrogate_spec=SurrogateSpec(model_configs=[model]),
            botorch_acqf_class=made.acquisition_class,
            transforms=[*Cont_X_trans, *Y_trans],
        )

    def _neighbourhood(self) -> SearchSpace:
        """A box around the best arm, as wide as half the space on every axis."""
        table = self.experiment.lookup_data().df
        best = self.experiment.arms_by_name[table.loc[table["mean"].idxmax(), "arm_name"]].parameters
        return _search_space(self.space, [_near(p, float(best[p.name])) for p in self.space.parameters])

    def tell(self, points: Sequence[Point], evaluations: Sequence[Evaluation]) -> None:
        """Record a finished round as one batch trial, observed without noise."""
        rates: dict[str, float] = {}
        arms: list[Arm] = []
        for point, evaluation in zip(points, evaluations, strict=True):
            arm = Arm(parameters=dict(point))
            if arm.signature not in rates:
                rates[arm.signature] = evaluation.throughput_rps
                arms.append(arm)
        trial = self.experiment.new_batch_trial(generator_runs=[GeneratorRun(arms=arms)])
        trial.mark_running(no_runner_required=True)
        rows = [_observation(trial.index, arm.name, rates[arm.signature]) for arm in trial.arms]
        self.experiment.attach_data(Data(df=pd.DataFrame(rows)))
        trial.mark_completed()


def _observation(trial: int, arm: str, rate_rps: float) -> dict[str, object]:
    return {
        "trial_index": trial,
        "arm_name": arm,
        "metric_name": METRIC,
        "metric_signature": METRIC,
        "mean": rate_rps,
        "sem": 0.0,
    }


def _near(parameter: Parameter, centre: float) -> Parameter:
    reach = NEIGHBOURHOOD * (parameter.high - parameter.low)
    return Parameter(
        name=parameter.name, low=max(parameter.low, centre - reach), high=min(parameter.high, centre + reach)
    )


def _search_space(space: Space, parameters: Sequence[Parameter]) -> SearchSpace:
    return SearchSpace(
        parameters=[
            RangeParameter(name=p.name, parameter_type=ParameterType.FLOAT, lower=p.low, upper=p.high)
            for p in parameters
        ],
        parameter_constraints=[
            ParameterConstraint(inequality=f"{' + '.join(limit.names)} <= {limit.most}") for limit in space.limits
        ],
    )
