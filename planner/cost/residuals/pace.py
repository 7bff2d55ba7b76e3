"""How fast a model runs on a GPU type under an engine, over what its kernels say: the residual of everything else.

| symbol | meaning | unit |
|---|---|---|
| r | measured over predicted rate at the measured number of sequences | 1 |
| g | ln of the pace of a group: GPU type, network, engine, bits of its weights | 1 |
| d | what its degrees (tp, dp, ep) add | 1 |
| v | what the engine's version adds; 0 of versions that were not measured | 1 |
| p | ln of the pace of a group's pools that take prompts in alone, beyond their engine's `prefill_pool` | 1 |

time = kernels' time / exp(g + d + v), of steps of prompts alone / exp(p). They are what many runs have in common,
shrunk to 0 (`benchmarks/pace_fit.py`), and 0 where nothing was measured: evidence shows that no pace of an engine, a
GPU type or a precision carries over to models that were not measured. A calibration's `pace_prefill` and `pace_decode`
come on top, by GPU type, network and engine (`bands.place`), of formulas alone as of measured kernels.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from planner.cost.arrays import Array, as_array
from planner.cost.residuals.bands import known_as, place
from planner.cost.residuals.pace_table import DEGREES, GROUPS, POOLS, VERSIONS
from planner.domain import Calibration, CostSettings, GpuSpec, ModelSpec, Phase
from planner.domain.model.formats import bits

Group = tuple[str, str, str, str]
"""GPU type, network, engine, precision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """ln of the pace of a group, and what degrees and versions add: ((tp, dp, ep), ln) and (version, ln) each. `pool`:
    ln of the pace of prompts taken in apart. `own`: ln of what somebody's own measurements add to both."""

    ln: float | Array = 0.0
    degrees: tuple[tuple[tuple[int, int, int], float], ...] = ()
    versions: tuple[tuple[str, float], ...] = ()
    pool: float = 0.0
    own: float = 0.0

    @property
    def apart(self) -> "Pace":
        """The pace of steps of prompts alone."""
        return Pace(ln=self.pool, own=self.own)

    def of_versions(self, versions: Sequence[str]) -> "Pace":
        """The paces of runs, each under its version."""
        by_version = dict(self.versions)
        return replace(self, ln=self.ln + np.array([by_version.get(version, 0.0) for version in versions]), versions=())

    def at(self, tp: Array, dp: Array, ep: Array) -> Array:
        """The pace at these degrees, above 1 where a pass is faster than its kernels say."""
        ln = as_array(self.ln + self.own)
        for (t, d, e), more in self.degrees:
            ln = ln + np.where((tp == t) & (dp == d) & (ep == e), more, 0.0)
        return np.asarray(np.exp(ln))


NO_PACE = Pace()
Paces = Mapping[Group, Pace]
BUILT_IN_PACES: Paces = {
    group: Pace(ln=ln, degrees=DEGREES.get(group, ()), versions=VERSIONS.get(group, ()), pool=POOLS.get(group, 0.0))
    for group, (ln, _) in GROUPS.items()
}


def group_of(gpu: GpuSpec, model: ModelSpec, engine: str) -> Group:
    """What a model on a GPU type is one of."""
    return gpu.name, known_as(model), engine, bits(model.expert_bytes if model.experts else model.weight_bytes)


def pace_of(gpu: GpuSpec, model: ModelSpec, phase: Phase, settings: CostSettings) -> Pace:
    """What was measured of the settings' engine; without an engine what a calibration says of formulas."""
    if not settings.engine and settings.calibration is None:
        return NO_PACE
    return own_pace(BUILT_IN_PACES, group_of(gpu, model, settings.engine), phase, settings.calibration)


def own_pace(paces: Paces, group: Group, phase: Phase, calibration: Calibration | None) -> Pace:
    """The pace of a group, with what a calibration says of it on top."""
    pace = paces.get(group, NO_PACE)
    return pace if calibration is None else _with_own(pace, place(*group[:3]), phase, calibration)


@lru_cache(maxsize=1024)
def _with_own(pace: Pace, here: str, phase: Phase, calibration: Calibration) -> Pace:
    values = [f.value for f in calibration.factors if (f.name, f.family) == (f"pace_{phase}", here)]
    return replace(pace, own=float(np.log(values[-1]))) if values else pace
