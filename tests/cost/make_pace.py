"""Makes planner/cost/residuals/pace_table.py anew: the paces of all runs that come with the package.

After a change of what kernels say of a pass, of the evidence, or of the names in
planner/cost/residuals/band_table.py (a minute):

    PYTHONPATH=tests/cost python tests/cost/make_pace.py > table.py && mv table.py planner/cost/residuals/pace_table.py
"""

import json
import sys
from collections.abc import Sequence

from benchmark_evidence import all_evidence

from planner.cost.benchmarks.pace_fit import PaceFit, fit_paces, paced_runs

LEAST = 0.002
"""Of a logarithm: what degrees add below this is left out."""
HEAD = '''"""Paces of what was measured. Made by tests/cost/make_pace.py.

`GROUPS`: GPU type, network, engine, precision -> (ln of the pace, points). `DEGREES`, `VERSIONS`: likewise -> what
degrees and versions of the engine add: ((tp, dp, ep), ln) and (version, ln) each. `POOLS`: ln of the pace of prompts
taken in apart. {points} points, {freedom:.0f} effective degrees of freedom.
"""

# fmt: off
# ruff: noqa: E501 - a row a group

Group = tuple[str, str, str, str]
GROUPS: dict[Group, tuple[float, int]] = {{
'''


def text(fit: PaceFit) -> str:
    """The module."""
    lines = [HEAD.format(points=sum(fit.counts.values()), freedom=fit.freedom)]
    lines += [f"    {_words(group)}: ({pace.ln:.3f}, {fit.counts[group]}),\n" for group, pace in fit.paces.items()]
    lines += ["}\n", "DEGREES: dict[Group, tuple[tuple[tuple[int, int, int], float], ...]] = {\n"]
    lines += [row for group, pace in fit.paces.items() for row in _row(group, pace.degrees)]
    lines += ["}\n", "VERSIONS: dict[Group, tuple[tuple[str, float], ...]] = {\n"]
    lines += [row for group, pace in fit.paces.items() for row in _row(group, pace.versions)]
    lines += ["}\n", "POOLS: dict[Group, float] = {\n"]
    pools = {group: pace.pool for group, pace in fit.paces.items() if abs(pace.pool) >= LEAST}
    lines += [f"    {_words(group)}: {pool:.3f},\n" for group, pool in pools.items()]
    return "".join([*lines, "}\n"])


def _row(group: tuple[str, ...], added: Sequence[tuple[object, float]]) -> list[str]:
    paces = [
        f"({json.dumps(of) if isinstance(of, str) else of}, {more:.3f})" for of, more in added if abs(more) >= LEAST
    ]
    return [f"    {_words(group)}: ({', '.join(paces)},),\n"] if paces else []


def _words(group: tuple[str, ...]) -> str:
    return "(" + ", ".join(f'"{word}"' for word in group) + ")"


def main() -> None:
    runs = [entry for entry in all_evidence().runs if not entry.reason and not entry.run.doubt]
    sys.stdout.write(text(fit_paces([run for _, run in paced_runs(runs)])))


if __name__ == "__main__":
    main()
