"""The models behind Bayesian optimisation, and how hard each is worked. The only file that imports BoTorch and torch.

The acquisition function is climbed lightly: a layout is rounded afterwards, so its last digits are lost anyway.
"""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from botorch.acquisition.logei import qLogExpectedImprovement
from botorch.models import SingleTaskGP
from botorch.models.fully_bayesian import SaasFullyBayesianSingleTaskGP
from botorch.utils.sampling import manual_seed

from planner.domain import Surrogate


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Model, acquisition and optimiser options of one surrogate."""

    model_class: type[Any]
    acquisition_class: type[Any] = qLogExpectedImprovement
    fit_options: Mapping[str, Any] = field(default_factory=dict)
    optimizer_options: Mapping[str, Any] = field(default_factory=dict)


_CLIMB: Mapping[str, Any] = {"num_restarts": 2, "raw_samples": 64, "options": {"maxiter": 30}}

# 96 draws kept at every 12th give 8 hyperparameter samples: the library keeps 16
_NUTS: Mapping[str, Any] = {"warmup_steps": 128, "num_samples": 96, "thinning": 12, "disable_progbar": True}


def recipe(surrogate: Surrogate, seed: int) -> Recipe:
    """The recipe of `surrogate`; `seed` starts its sampler."""
    if surrogate is Surrogate.SAASBO:
        return Recipe(
            model_class=SaasFullyBayesianSingleTaskGP,
            fit_options={**_NUTS, "seed": seed},
            optimizer_options=_CLIMB,
        )
    return Recipe(model_class=SingleTaskGP, optimizer_options=_CLIMB)


@contextmanager
def reproducible(seed: int) -> Iterator[None]:
    """One torch thread and a seeded generator inside; both are restored outside."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with manual_seed(seed), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # numerical chatter of a library; failures raise
            yield
    finally:
        torch.set_num_threads(threads)
