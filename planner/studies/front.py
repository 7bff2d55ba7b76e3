"""A study that has run: its table, its pictures, its page; and studies by name."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from planner.api.cards import card, rows_of
from planner.errors import InputError
from planner.guests import load
from planner.report.kit.tables import Frame, frame_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from planner.report.kit.plots import Plot

Draw = Callable[[], "Figure"]


def sheet(name: str, words: str, plots: "Sequence[Plot]", nothing: str = "") -> Draw:
    """What draws plots below each other: of what is called `name`; `nothing` says why one without plots is empty."""

    def draw() -> "Figure":
        from planner.report.kit.stills import still  # matplotlib takes a second to load

        return still(name, words, plots, nothing, titled=True)

    return draw


class StudyAtHand:
    """A study at hand: `frame` is its main table, `tables` the others by name, `records` what the runs gave.

    >>> spot = planner.study("spot", nodes=60, days=4)
    >>> spot.frame, spot.tables["curve"], spot.figures
    >>> spot.figure("curve")
    >>> print(spot.summary())
    """

    def __init__(
        self,
        name: str,
        rows: Sequence[Mapping[str, Any]],
        *,
        records: Mapping[str, Any],
        draw: Mapping[str, Draw],
        summary: Callable[[], str],
        tables: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
    ) -> None:
        self.name = name
        self.frame: Frame = frame_of(rows)
        self.tables: dict[str, Frame] = {title: frame_of(table) for title, table in (tables or {}).items()}
        self.records = dict(records)
        self._draw = dict(draw)
        self._summary = summary

    @property
    def figures(self) -> tuple[str, ...]:
        """Names of the pictures that there are of these runs, for `figure`."""
        return tuple(self._draw)

    def figure(self, name: str) -> "Figure":
        """A picture: one of `figures`. Raises InputError for any other name."""
        if name not in self._draw:
            raise InputError(
                f"figure: must be one of {', '.join(self._draw)} for these runs, got {name!r}.",
                hint="Choose one of these names.",
            )
        return self._draw[name]()

    def summary(self) -> str:
        """The study in Markdown."""
        return self._summary()

    def __repr__(self) -> str:
        return f"<study {self.name}: {len(self.frame)} rows, figures {', '.join(self.figures) or 'none'}>"

    def _repr_html_(self) -> str:
        more = {"figures": ", ".join(self.figures), "tables": ", ".join(self.tables)}
        return card(
            f"Study: {self.name}",
            facts={name: value for name, value in more.items() if value},
            rows=rows_of(self.frame),
            rows_at="study.frame",
        )


_DOORS = {
    "chapter5": "planner.studies.chapter5.api:chapter5_study",
    "defragmentation": "planner.studies.defragmentation.api:defragmentation_study",
    "policies": "planner.studies.policies.api:policy_study",
    "preemption": "planner.studies.preemption.api:preemption_study",
    "serving": "planner.studies.serving.api:serving_study",
    "spot": "planner.studies.spot.api:spot_study",
}


def study(name: str, **settings: Any) -> StudyAtHand:
    """A published study, run anew on this machine, in a size that takes seconds.

    >>> planner.study("spot", nodes=60, loads=(0.1, 0.2), days=4)

    | name            | what it asks                                                              | settings          |
    |-----------------|---------------------------------------------------------------------------|-------------------|
    | chapter5        | how searches for layouts compare (Rignall 2025, chapter 5)                | figures, trials, iterations, batch_size, seed, physical |
    | defragmentation | what moving pods frees on a cluster where tasks come and go               | nodes, days, load, every_hours, seeds, exact |
    | policies        | which online policy holds most GPUs, saves most power (FGD, PWR)          | nodes, pods, policies, seeds, exact |
    | preemption      | whether newcomers' GPUs share a socket (FlexTopo)                         | cycles, seeds, initials, methods, sequential, alpha, aligned, nodes, repetitions |
    | serving         | who loads which model when (Warsaw 2024)                                  | machines, policies, seeds, minutes, scale, constants, reading |
    | spot            | how much spot load a cluster carries (SpotGPU)                            | nodes, gpus_per_node, loads, policies, seeds, days, most_evictions_per_job |

    The whole of each, with its files, is a command: `planner study chapter5`, `planner simulate spot`. Raises
    InputError for a study, a setting or a value that there is not.
    """  # noqa: E501
    if name not in _DOORS:
        raise InputError(f"study: must be one of {', '.join(_DOORS)}, got {name!r}.", hint="Choose one of these names.")
    try:
        run: Callable[..., StudyAtHand] = load(_DOORS[name])
        return run(**settings)
    except TypeError as error:  # a setting that there is not
        if "unexpected keyword" not in str(error) or not settings:
            raise
        raise InputError(
            f"study {name}: must have settings that it takes, got {', '.join(settings)}.",
            hint="help(planner.study) lists them.",
        ) from None
