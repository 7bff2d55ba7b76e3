"""Bayesian optimisation as an Ax experiment. The only file that imports Ax.

The experiment, its trials and data are Ax's own; proposals come from Ax's modular BoTorch generator.
"""

import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

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
from ax.core.optimization_config import OptimizationConfig
from ax.core.parameter import ParameterType, RangeParameter
from ax.core.parameter_constraint import ParameterConstraint
from ax.core.search_space import SearchSpace
from ax.generators.torch.botorch_modular.surrogate import SurrogateSpec
from ax.generators.torch.botorch_modular.utils import ModelConfig
from ax.utils.common.logger import set_ax_logger_levels

from planner.domain import Evaluation, SearchSettings
from planner.search.space import Parameter, Point, Space
from planner.search.surrogate import Recipe, recipe, reproducible

METRIC = "throughput_rps"
GENERATOR = "botorch"
NEIGHBOURHOOD = 0.12


class AxProposer:
    """Proposes points by expected improvement over everything told so far.

    A batch from the whole space alone spreads thin once the good region is known. So a quarter of it comes from near
    the best point, and three eighths change one GPU type and keep the rest of the best point: types share the work,
    but little else. An eighth (with a single type: half) is left to chance: where a divisor more or less decides,
    the landscape is too rough for any model.
    """

    name = GENERATOR

    def __init__(self, space: Space, settings: SearchSettings) -> None:
        set_ax_logger_levels(logging.ERROR)  # chatter; failures raise
        self.space = space
        self.settings = settings
        self.types = tuple(dict.fromkeys(p.gpu for p in space.parameters))
        self.experiment = Experiment(
            name="layout",
            search_space=_search_space(space, space.parameters),
            metrics=[Metric(name=METRIC, lower_is_better=False)],
            optimization_config=OptimizationConfig(
                objective=Objective(expression=METRIC, metric_name_to_signature={METRIC: METRIC})
            ),
        )

    def propose(self, count: int, rng: np.random.Generator) -> list[dict[str, float]]:
        """Fewer than `count` points, the rest is for chance; all sampling is seeded from `rng`."""
        seed, turn = int(rng.integers(2**31 - 1)), int(rng.integers(len(self.types)))
        made = recipe(self.settings.surrogate, seed)
        near, by_type = count // 4, 3 * count // 8 if len(self.types) > 1 else 0
        with reproducible(seed):
            adapter = self._fit(made)
            generate = partial(adapter.gen, model_gen_options={"optimizer_kwargs": dict(made.optimizer_options)})
            runs = [generate(count - near - 3 * count // 8 - count // 8)]
            if near:
                runs.append(generate(near, search_space=self._neighbourhood()))
            for place, gpu in enumerate(self.types[turn:] + self.types[:turn]):
                share = by_type // len(self.types) + (place < by_type % len(self.types))
                if share:
                    runs.append(generate(share, fixed_features=self._other_types(gpu)))
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

    def _best(self) -> dict[str, float]:
        table = self.experiment.lookup_data().df
        arm = self.experiment.arms_by_name[table.loc[table["mean"].idxmax(), "arm_name"]]
        return {name: float(value) for name, value in arm.parameters.items()}

    def _neighbourhood(self) -> SearchSpace:
        """A box around the best point."""
        best = self._best()
        return _search_space(self.space, [_near(p, best[p.name]) for p in self.space.parameters])

    def _other_types(self, gpu: str) -> ObservationFeatures:
        """The best point's coordinates of every type but `gpu`, to be held fast."""
        best = self._best()
        return ObservationFeatures(parameters={p.name: best[p.name] for p in self.space.parameters if p.gpu != gpu})

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
    return replace(parameter, low=max(parameter.low, centre - reach), high=min(parameter.high, centre + reach))


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
