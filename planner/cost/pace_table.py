"""Paces of what was measured. Made by tests/cost/make_pace.py.

`GROUPS`: GPU type, network, engine, precision -> (ln of the pace, points). `DEGREES`: likewise -> what degrees add:
((tp, dp, ep), ln) each.
"""

# fmt: off

GROUPS: dict[tuple[str, str, str, str], tuple[float, int]] = {
}
DEGREES: dict[tuple[str, str, str, str], tuple[tuple[tuple[int, int, int], float], ...]] = {
}
