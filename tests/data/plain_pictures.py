"""Pictures that cost next to nothing, for tests that do not look at them: painting is most of a run's time."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from io import BytesIO
from typing import IO, Any

from matplotlib.figure import Figure


@contextmanager
def copied_pictures() -> Iterator[None]:
    """Of each format only the first picture is painted, the others are its copies.

    They are built all the same, so that what cannot be drawn still fails; tests/report looks at what is painted.
    """
    painted, paint = _painted(), Figure.savefig

    def copied(figure: Figure, to: IO[bytes], *, format: str, **options: Any) -> None:
        if format not in painted:
            stream = BytesIO()
            paint(figure, stream, format=format, **options)
            painted[format] = stream.getvalue()
        to.write(painted[format])

    Figure.savefig = copied
    try:
        yield
    finally:
        Figure.savefig = paint


@cache
def _painted() -> dict[str, bytes]:
    """Pictures by format."""
    return {}
