"""Makes planner/cost/benchmarks/factor_spread.py anew: how well the published evidence knows the fitted factors.

After every change of `planner/cost/fitted_factors.py` (about a minute):

    python tests/cost/make_factor_spread.py > spread.py && mv spread.py planner/cost/benchmarks/factor_spread.py
"""

import sys
import textwrap

import numpy as np
from benchmark_evidence import evidence

from planner.cost import UNFITTED
from planner.cost.benchmarks.fit import BENCHMARK_FREE, Evidence, Problem
from planner.cost.fitted_factors import FITTED

HEAD = '''"""How well the published evidence knows the fitted factors. Made by tests/cost/make_factor_spread.py.

`SPREAD`: name, family, standard deviation of the factor's logarithm around the value in force. `CORRELATION`: of these
logarithms, in percent: row k has those with the factors before k.
"""
'''


def covariance_at(evidence: Evidence, values: list[float]) -> np.ndarray:
    """How well the evidence knows the logarithms of the free factors around `values`: the inverse curvature.

    Each derivative is taken towards the middle of the factor's bounds, as many values lie at one.
    """
    problem = Problem.of(evidence, BENCHMARK_FREE, UNFITTED)
    x = np.log(values)
    here = problem.residuals(x)
    slopes = problem.slopes(x) * ((1 + here**2) ** -0.75)[:, None]  # the curvature of rho
    return np.asarray(np.linalg.pinv(slopes.T @ slopes))


def main() -> None:
    values = {(f.name, f.family): f.value for f in FITTED}
    in_force = [values[f.name, f.family] for f in BENCHMARK_FREE]
    covariance = covariance_at(evidence(), in_force)
    spread = np.sqrt(np.diag(covariance))
    percent = np.round(100 * covariance / np.outer(spread, spread)).astype(int)
    lines = [HEAD, "SPREAD: tuple[tuple[str, str, float], ...] = ("]
    lines += [f'    ("{f.name}", "{f.family}", {sd:.4f}),' for f, sd in zip(BENCHMARK_FREE, spread, strict=True)]
    lines += [")", "# fmt: off", "CORRELATION: tuple[tuple[int, ...], ...] = ("]
    for k, row in enumerate(percent.tolist()):
        cells = ", ".join(map(str, row[:k]))
        text = f"({cells}{',' * (k == 1)}),"
        lines += textwrap.wrap(text, width=110, initial_indent="    ", subsequent_indent="     ")
    sys.stdout.write("\n".join([*lines, ")", "# fmt: on", ""]))


if __name__ == "__main__":
    main()
