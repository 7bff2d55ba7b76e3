"""The models behind Bayesian optimisation, and how hard each is worked. The only file that imports gpytorch.

The acquisition function is climbed lightly: a layout is rounded afterwards, so its last digits are lost anyway.

| symbol | meaning |
|---|---|
| x_t | the coordinates that shape the islands of GPU type t |
| k_t, k | Matern 5/2 kernels, a length scale per coordinate: of x_t alone, of all coordinates |

The Gaussian process has the kernel sum_t k_t(x_t) + k(x): the types' rates add up until a phase runs short, so that
what a type contributes can be learnt from its own coordinates, and what is left from all. Against BoTorch's default,
one kernel over all, the error on the better layouts of 64 H200, 64 H800 and 128 H20 falls from 99 to 61 requests/s
after 60 layouts and from 101 to 34 after 150 (Azure code, default mode; reference mode: 16 to 13, 17 to 13).
Length scales have a Gamma(3, 6) prior, variances Gamma(2, 0.15), as BoTorch's models had before version 0.12.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from botorch import fit_gpytorch_mll
from botorch.acquisition.analytic import LogExpectedImprovement
from botorch.acquisition.logei import qLogExpectedImprovement
from botorch.acquisition.multi_objective import logei
from botorch.acquisition.multi_objective.logei import qLogNoisyExpectedHypervolumeImprovement
from botorch.models import SingleTaskGP
from botorch.models.fully_bayesian import SaasFullyBayesianSingleTaskGP
from botorch.models.map_saas import EnsembleMapSaasSingleTaskGP
from botorch.models.model import Model
from botorch.utils.sampling import manual_seed
from gpytorch.kernels import AdditiveKernel, MaternKernel, ScaleKernel
from gpytorch.mlls import ExactMarginalLogLikelihood
from gpytorch.priors import GammaPrior
from numpy.typing import NDArray

from planner.domain import Surrogate


class SumOfTypes(AdditiveKernel):  # type: ignore[misc]  # gpytorch is not typed
    """sum_t k_t(x_t) + k(x); `groups` are the columns of each GPU type."""

    def __init__(self, groups: Sequence[Sequence[int]]) -> None:
        parts = [_matern(list(columns)) for columns in groups]
        if len(groups) > 1:
            parts.append(_matern([column for columns in groups for column in columns]))
        super().__init__(*parts)


def _matern(columns: list[int]) -> ScaleKernel:
    matern = MaternKernel(
        nu=2.5, ard_num_dims=len(columns), active_dims=columns, lengthscale_prior=GammaPrior(3.0, 6.0)
    )
    return ScaleKernel(matern, outputscale_prior=GammaPrior(2.0, 0.15))


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Model, acquisition and optimiser options of one surrogate; `model` are Ax's words for it."""

    model: Mapping[str, Any]
    acquisition_class: type[Any]
    acquisition_options: Mapping[str, Any] = field(default_factory=dict)
    optimizer_options: Mapping[str, Any] = field(default_factory=dict)


# the boxes that a frontier cuts the goals into multiply with every goal: beyond three, small ones are left out
MOST_EXACT_GOALS = 3
COARSE = 0.05  # of the hypervolume

_CLIMB: Mapping[str, Any] = {"num_restarts": 2, "raw_samples": 64, "options": {"maxiter": 30}}


def recipe(surrogate: Surrogate, groups: Sequence[Sequence[int]], seed: int, goals: int = 1) -> Recipe:
    """The recipe of `surrogate`; `groups` are the columns of each GPU type, `seed` starts its sampler."""
    if surrogate is Surrogate.SAASBO:
        sampling = {"disable_progbar": True, "seed": seed}
        model = {"botorch_model_class": SaasFullyBayesianSingleTaskGP, "mll_options": sampling}
    elif surrogate is Surrogate.SAASBO_MAP:
        model = {"botorch_model_class": EnsembleMapSaasSingleTaskGP}
    else:
        model = {
            "botorch_model_class": SingleTaskGP,
            "covar_module_class": SumOfTypes,
            "covar_module_options": {"groups": [list(columns) for columns in groups]},
        }
    if goals == 1:
        return Recipe(model=model, acquisition_class=qLogExpectedImprovement, optimizer_options=_CLIMB)
    return Recipe(
        model=model,
        acquisition_class=qLogNoisyExpectedHypervolumeImprovement,
        acquisition_options={"alpha": COARSE} if goals > MOST_EXACT_GOALS else {},
        optimizer_options=_CLIMB,
    )


@contextmanager
def reproducible(seed: int) -> Iterator[None]:
    """One torch thread, a seeded generator and no compiled code of this machine inside; restored outside.

    BoTorch compiles a kernel for several goals on first use, with `-march=native`, under a lock file in the user's
    cache. A process killed meanwhile leaves the lock, for which all later searches would wait without end.
    """
    threads, compiled = torch.get_num_threads(), logei._load_attempted
    torch.set_num_threads(1)
    logei._load_attempted = True
    try:
        with manual_seed(seed), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # numerical chatter of a library; failures raise
            yield
    finally:
        torch.set_num_threads(threads)
        logei._load_attempted = compiled


def log_expected_improvement(
    model: Model, points: NDArray[np.float64], best: float | NDArray[np.float64]
) -> NDArray[np.float64]:
    """log E[max(0, f - best)] at each of `points`, shape (n, d) in the model's coordinates; `best` may differ from
    point to point. A model of several draws of its parameters has the mean of their improvements."""
    with torch.no_grad():
        bests = torch.as_tensor(best, dtype=torch.double).reshape(-1, 1)
        worth = LogExpectedImprovement(model, best_f=bests)(torch.tensor(points, dtype=torch.double)[:, None])
        improvement: NDArray[np.float64] = worth.numpy()
    return improvement


class SmoothFunction:
    """A Gaussian process through noisy values of about mean 0 and variance 1; coordinates lie in 0..1."""

    def __init__(self, points: NDArray[np.float64], values: NDArray[np.float64], seed: int) -> None:
        """`points`: shape (n, d); `values`: (n,)."""
        self._seed = seed
        with reproducible(seed):
            sites = torch.tensor(points, dtype=torch.double)
            observed = torch.tensor(values, dtype=torch.double)[:, None]
            self._model = SingleTaskGP(sites, observed, outcome_transform=None)
            fit_gpytorch_mll(ExactMarginalLogLikelihood(self._model.likelihood, self._model))

    def log_expected_improvement(self, points: NDArray[np.float64], best: NDArray[np.float64]) -> NDArray[np.float64]:
        """log E[max(0, f - best)] at each of `points`, each over a value of its own."""
        with reproducible(self._seed):
            return log_expected_improvement(self._model, points, best)

    def believe(self, point: NDArray[np.float64]) -> float:
        """Take the mean at a point, shape (d,), for observed, and tell it: what comes next should tell something
        else."""
        with reproducible(self._seed), torch.no_grad():
            site = torch.tensor(point, dtype=torch.double)[None]
            mean = self._model.posterior(site).mean
            self._model = self._model.condition_on_observations(site, mean)
            return float(mean)
