"""A study that has run: its table, its pictures, its page."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from planner.api.cards import card, rows_of
from planner.errors import InputError
from planner.report.kit.frames import Frame, frame_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Draw = Callable[[], "Figure"]


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
            rest="study.frame",
        )
