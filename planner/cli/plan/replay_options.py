"""What is typed for `planner replay`, taken apart; faults name the option."""

import math
import re
from typing import TYPE_CHECKING

from planner.cli.program.seeds import seeds_of
from planner.errors import InputError

if TYPE_CHECKING:
    from planner.domain.arrivals import Failure

_FAILURE = re.compile(r"(?P<island>.+)@(?P<at>[^@:]+)(?::(?P<nodes>[^@:]+))?")


def read_seeds(text: str) -> tuple[int, ...]:
    """`3`: so many seeds, from 0 on; `7,` or `1,5` or `4-6`: these."""
    if "," not in text and "-" not in text:
        count = seeds_of(text)[0]
        if not 1 <= count <= 1000:
            raise InputError(f"--seeds: must be from 1 to 1000 seeds, got {text!r}.", hint="Write 3, or 0,1,2.")
        return tuple(range(count))
    return seeds_of(text.removesuffix(","))


def read_stretch(text: str | None) -> tuple[float, float] | None:
    """`0:1800`, seconds of the trace."""
    if text is None:
        return None
    start, _, end = text.partition(":")
    seconds = _number(start), _number(end)
    if any(math.isnan(second) for second in seconds):
        raise InputError(f"--between: must be two seconds of the trace, got {text!r}.", hint="Write 0:1800.")
    return seconds


def read_failure(text: str) -> "Failure":
    """`ISLAND@SECONDS`, one node; `ISLAND@SECONDS:NODES`, so many or `all`."""
    from planner.domain.arrivals import Failure

    match = _FAILURE.fullmatch(text)
    nodes = "1" if match is None or match["nodes"] is None else match["nodes"].replace("all", "0")
    at_s = math.nan if match is None else _number(match["at"])
    if match is None or math.isnan(at_s) or not (nodes.isascii() and nodes.isdigit() and len(nodes) <= 9):
        raise InputError(
            f"--fail: must be ISLAND@SECONDS or ISLAND@SECONDS:NODES, got {text!r}.",
            hint="Write --fail prefill-1@60, --fail prefill-1@60:2, or --fail prefill-1@60:all.",
        )
    return Failure(island=match["island"], at_s=at_s, nodes=int(nodes))


def _number(text: str) -> float:
    """The number, or NaN."""
    try:
        return float(text)
    except ValueError:
        return math.nan
