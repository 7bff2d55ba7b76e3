"""How requests find their island: by buckets of prompt length, or by a table of shares; and how a router sees them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated

from planner.domain.keys import Bounds, Key
from planner.domain.layout import Phase

_Share = Annotated[float, Bounds(above=0, high=1)]
MOST_BUCKETS = 8
SIMPLICITY = 0.01
"""Share of the best rate that a plan may give up for being simpler, unless a scenario says otherwise."""
WORTH_A_BUCKET = 0.03
"""What a further bucket of a phase must add to the rate."""


class RoutingForm(StrEnum):
    """`buckets`: pools of equal islands behind contiguous intervals of prompt length, a router balances inside.
    `table`: every range of lengths has shares of its own. `sets`: the islands of the table with a share, balanced."""

    BUCKETS = "buckets"
    SETS = "sets"
    TABLE = "table"

    @property
    def row(self) -> "FormRow":
        """What the form says of itself."""
        return FORMS[self]


@dataclass(frozen=True, slots=True, kw_only=True)
class FormRow:
    """A form of routing. `part`: what its islands are called; `stretch`: what requests are told apart by; `solved`:
    what is solved for where nothing is searched; `members`: what a layout of a search is made of. `balanced`: a router
    balances among the islands of a length, and the shares only say what that comes to. `pooled`: each island is a pool
    of equal servers that serves one stretch of lengths."""

    part: str
    stretch: str
    solved: str
    members: str
    balanced: bool
    pooled: bool = False


_ISLANDS = FormRow(part="island", stretch="range", solved="the layout itself was", members="islands", balanced=False)
FORMS: Mapping[RoutingForm, FormRow] = MappingProxyType(
    {
        RoutingForm.BUCKETS: FormRow(
            part="pool",
            stretch="bucket",
            solved="buckets, pools and servers were",
            members="servers",
            balanced=True,
            pooled=True,
        ),
        RoutingForm.SETS: replace(_ISLANDS, balanced=True),
        RoutingForm.TABLE: _ISLANDS,
    }
)


DEFAULT_FORM: RoutingForm | None = None
"""Of a scenario that names none; None: buckets where their programme knows all that is asked, else a table."""


class RouterPolicy(StrEnum):
    """Whom a router sends a request to, inside a bucket.

    `least_work`: the server with the least outstanding tokens for its speed, and within it the rank with the fewest
    waiting tokens. `prefix_aware`: the rank with most of the prompt in its cache where that is half of it at least,
    else as `least_work`. `session`: the rank that the request's session is hashed to, by weight; as `least_work` where
    no sessions are told. `overflow`: as `least_work`, and to a longer bucket where the bucket's own servers are late.
    `round_robin`: servers in turn, by weight. `random`: one drawn by weight; under these two ranks are taken in turn.
    """

    LEAST_WORK = "least_work"
    PREFIX_AWARE = "prefix_aware"
    SESSION = "session"
    OVERFLOW = "overflow"
    ROUND_ROBIN = "round_robin"
    RANDOM = "random"


class ServingForm(StrEnum):
    """Where a request's halves run. `split`: on islands of their own. `aggregated`: on the same GPUs, prompts in the
    passes that yield tokens. `auto`: the better of both, by bucket and pool."""

    AUTO = "auto"
    SPLIT = "split"
    AGGREGATED = "aggregated"


DEFAULT_SERVING: ServingForm | None = None
"""Of a scenario that names none; None: the better of both where mixed pools know all that is asked, else split."""


SPLIT_BIAS = 0.1
"""By what share servers of plans are priced kinder split than aggregated.

Rate of each GPU of the best split run over that of the best aggregated one, predicted over measured: the median of the
49 cells of `serving_points.csv` (GPU type, precision and prompts that were measured in both forms, each under bounds of
10, 15, 20, 30, 50, 75 and 100 ms on TPOT), every run by itself with its own pools. The middle half lies between 0.9 and
1.2. As closed loops with the experts where each run had them the median is 1.00: what is left is that most aggregated
runs split their experts like dense weights, which is a tenth faster of few sequences than to spread them, as plans do.
`tests/cost/test_split_bias.py` makes it again.
"""


def worth_of(value: float, form: ServingForm, *, minimises: bool = False) -> float:
    """What is left of a rate (or becomes of a price) where the bias towards split pools is taken off; of pools of both
    forms (`auto`) as of split ones."""
    if form is ServingForm.AGGREGATED:
        return value
    return value * (1 + SPLIT_BIAS) if minimises else value / (1 + SPLIT_BIAS)


@dataclass(frozen=True, slots=True, kw_only=True)
class FormChoice:
    """What the form of a plan's pools was chosen over, in the objective's unit.

    `chosen`, `other`: `aggregated`, or `split`, which stands for pools some of which are split. `margin`: what split
    pools must win by. `own_bound`: none of the form's own pools are better. `other_value`: the other form's best (None:
    it serves nothing, or cannot win and was not solved for), `other_bound`: none of its pools are better (None: it
    serves nothing).
    """

    chosen: ServingForm
    other: ServingForm
    margin: Annotated[float, Key("share that split pools must win by")]
    own_bound: Annotated[float, Key("none of the form's own pools are better")]
    other_value: Annotated[float | None, Key("best of the other form (null: none, or too few to win)")]
    other_bound: Annotated[float | None, Key("none of the other form are better (null: it serves nothing)")]


POOL_CLASSES = {
    ServingForm.SPLIT: "split pools",
    ServingForm.AGGREGATED: "aggregated pools",
    ServingForm.AUTO: "split or aggregated pools",
}


def class_of_pools(requested: ServingForm, forms: FormChoice | None) -> str:
    """What a bound and a gap are of: aggregated pools where they were chosen, else all that the scenario admits."""
    chosen = forms is not None and forms.chosen is ServingForm.AGGREGATED
    return POOL_CLASSES[ServingForm.AGGREGATED if chosen else requested]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutingSettings:
    """What a plan may ask of a router. `form`: None stands for what `Scenario.routing_form` makes of it. `policy`: None
    stands for whom the router chooses that the plan is deployed with, `Scenario.router`; else the plan is priced for a
    router of one's own that chooses so."""

    form: Annotated[RoutingForm | None, Key("buckets of prompt length, or a table of shares")] = DEFAULT_FORM
    most: Annotated[int, Bounds(low=1, high=MOST_BUCKETS), Key("buckets of a phase")] = 2
    policy: Annotated[RouterPolicy | None, Key("whom a router of one's own chooses; null: deploy.router's")] = None
    margin: Annotated[_Share, Key("of its capacity, what a plan promises")] = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class SurvivalSettings:
    """What must remain of the rate when so many nodes are lost, whichever they are. `share` 0: nothing is asked."""

    nodes: Annotated[int, Bounds(low=1, high=1000), Key("that are lost at once")] = 1
    share: Annotated[float, Bounds(low=0, high=1), Key("of the rate that must remain")] = 0.0


class LengthMeasure(StrEnum):
    """What a router counts a prompt in. `tokens`: as the plan does. `bytes`: of the request's body. `characters`: of
    its text. In the others a plan's cut points fall at another number of tokens for every prompt."""

    TOKENS = "tokens"
    BYTES = "bytes"
    CHARACTERS = "characters"


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolGrid:
    """One phase: pools of islands, and the pool of each of the cells of `width` tokens that begin with length 0.

    A pool takes the prompts of its cells as they come and spreads them over its islands by load, blind to length.
    `plan_rps` and `grid_rps` (requests/s): what the phase serves at exact lengths by the plan's table and by the
    grid's, each with the batches that it deploys.
    """

    phase: Phase
    width: int
    pools: tuple[tuple[str, ...], ...]
    cells: tuple[int, ...]
    plan_rps: float
    grid_rps: float

    @property
    def end(self) -> int:
        """Tokens where the grid ends."""
        return self.width * len(self.cells)

    def pool_of(self, tokens: int) -> int:
        """The pool of a prompt; what is longer than the grid goes to its last cell."""
        return self.cells[min(tokens // self.width, len(self.cells) - 1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterGrid:
    """Both phases. `planned_rps`: the plan's rate as the plan tells it (requests/s); midpoints, queues or a network may
    set it apart from `plan_rps`."""

    planned_rps: float
    prefill: PoolGrid
    decode: PoolGrid

    @property
    def plan_rps(self) -> float:
        """Requests/s of the plan at exact lengths."""
        return min(self.prefill.plan_rps, self.decode.plan_rps)

    @property
    def grid_rps(self) -> float:
        """Requests/s by the grid at exact lengths."""
        return min(self.prefill.grid_rps, self.decode.grid_rps)

    @property
    def cost(self) -> float:
        """Share of the plan's rate that the grid gives up; below 0 where the plan's table leaves room."""
        return 1 - self.grid_rps / self.plan_rps

    @property
    def cost_text(self) -> str:
        """The cost in words, like with like, and the plan's rate where it is another."""
        rates = f"{self.grid_rps:.4g} of the {self.plan_rps:.4g} requests/s of the plan's own table"
        way = "less" if self.cost > 0 else "more"
        same = f"{self.planned_rps:.4g}" == f"{self.plan_rps:.4g}"
        planned = "" if same else f"; the plan tells {self.planned_rps:.4g}"
        return f"{abs(self.cost):.1%} {way}, {rates} at exact lengths{planned}"

    def phase(self, phase: Phase) -> PoolGrid:
        """The grid of one phase."""
        return self.prefill if phase is Phase.PREFILL else self.decode
