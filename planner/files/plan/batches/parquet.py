"""Tables as Parquet, of an optional library: typed columns, the same bytes for the same rows."""

from collections.abc import Sequence
from importlib.util import find_spec
from io import BytesIO

INSTALL = 'pip install "llm-fleet-planner[parquet]"'


def can_write_parquet() -> bool:
    """Whether the library is installed."""
    return find_spec("pyarrow") is not None


def parquet_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> bytes:
    """A header and its rows. A column is of truth values, whole numbers, numbers or texts, as its values all are; None
    is missing."""
    import pyarrow as pa  # noqa: PLC0415  (an optional extra)
    import pyarrow.parquet as pq  # noqa: PLC0415  (as above)

    columns = [_column([row[place] for row in rows]) for place in range(len(header))]
    types = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string()}
    arrays = [pa.array(values, types[kind]) for kind, values in columns]
    stream = BytesIO()
    pq.write_table(pa.table(dict(zip(header, arrays, strict=True))), stream)
    return stream.getvalue()


def _column(values: Sequence[object]) -> tuple[type, list[object]]:
    """The type that all values of a column are written as, and the values so."""
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {bool} or kinds <= {int}:
        return next(iter(kinds), str), list(values)
    if kinds <= {int, float}:
        return float, [float(value) if isinstance(value, int) else value for value in values]
    return str, [None if value is None else str(value) for value in values]
