"""Measured step times from CSV: one row a step, the columns of `REQUIRED`, and of `OPTIONAL` where they are known.

`ms`: prefill: the time in which each rank takes in `batch` prompts of `length` tokens; decode: the time of one output
token for `batch` sequences on each attention group. `ep` is tp x dp where experts are spread, 1 in a dense model.
"""

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from planner.domain import PHASES, GpuSpec, Measurement, ModelSpec, Phase
from planner.errors import InputError
from planner.files.disk.csv_rows import LARGEST, listed, number_of, text_cells
from planner.files.disk.names import shipped_models
from planner.files.disk.opening import read_text, text_lines
from planner.files.models.gpu_specs import load_gpu_specs
from planner.files.models.models import load_model
from planner.files.sections import nearest_hint

LEFT_OUT = Path(__file__).resolve().parents[1] / "measurement_sets" / "left_out.csv.xz"
PEER = Path(__file__).resolve().parents[1] / "measurement_sets" / "peer.csv.xz"
PUBLISHED = Path(__file__).resolve().parents[1] / "measurement_sets" / "published.csv"
_MOST_FAULTS = 5
_COUNTED_FAULTS = 10_000


def load_published_measurements() -> tuple[Measurement, ...]:
    """The published measurements that the built-in factors are fitted to, each with its source."""
    return load_measurements(PUBLISHED)


def is_step_table(path: Path) -> bool:
    """Whether a file is a CSV of step times: its header names `ms` and `phase`."""
    if path.suffix.lower() != ".csv":
        return False
    header = {cell.strip() for cell in read_text(path).split("\n", 1)[0].split(",")}
    return {"ms", "phase"} <= header


def load_left_out(protocol: str = "by_configuration") -> dict[tuple[str, int, str], float]:
    """What fits that left out a point's own configuration (row, model, GPU type, engine: see the file's columns)
    predicted of the points at hand: by file name, row and metric."""
    return _record(LEFT_OUT, protocol)


def load_peer() -> dict[tuple[str, int, str], float]:
    """What the peer's tables say of the points at hand, likewise."""
    return _record(PEER, "predicted")


def _record(path: Path, column: str) -> dict[tuple[str, int, str], float]:
    rows = csv.DictReader(text_lines(path))
    return {(row["file"], int(row["row"]), row["metric"]): float(row[column]) for row in rows if row[column]}


def load_measurements(path: Path) -> tuple[Measurement, ...]:
    """The measurements of a CSV file.

    InputError names the file, the rows (the first after the header is 1), the column and the rule; of several faulty
    rows it names the first five.
    """
    return parse_measurements(read_text(path), str(path))


def parse_measurements(text: str, origin: str) -> tuple[Measurement, ...]:
    """The measurements of a CSV text; `origin` names it in errors."""
    rows = list(text_cells(text, origin))
    header = [cell.strip() for cell in rows[0]] if rows else []
    _check_header(origin, header)
    if len(rows) == 1:
        raise InputError(f"{origin}: must hold at least one measurement; only a header came.", hint="Add rows.")
    measurements, faults = [], []
    for number, row in enumerate(rows[1:], start=1):
        try:
            measurements.append(_measurement(number, header, row))
        except InputError as fault:
            faults.append(fault)
            if len(faults) == _COUNTED_FAULTS:
                break
    if faults:
        more = f" And {len(faults) - _MOST_FAULTS} more rows." if len(faults) > _MOST_FAULTS else ""
        messages = " ".join(fault.message for fault in faults[:_MOST_FAULTS])
        raise InputError(f"{origin}: {messages}{more}", hint=faults[0].hint)
    return tuple(measurements)


def measurements_text(measurements: Sequence[Measurement]) -> str:
    """The CSV text that reads back as `measurements`."""
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(REQUIRED + OPTIONAL)
    for measurement in measurements:
        writer.writerow([_cell(getattr(measurement, field)) for field in _FIELDS.values()])
    return stream.getvalue()


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return repr(value) if isinstance(value, float) else str(int(value) if isinstance(value, bool) else value)


def _check_header(path: str, header: list[str]) -> None:
    missing = [name for name in REQUIRED if name not in header]
    unknown = [name for name in header if name not in REQUIRED + OPTIONAL]
    if missing or unknown or len(set(header)) != len(header):
        wrong = [f"missing: {', '.join(missing)}"] * bool(missing) + [f"unknown: {listed(unknown)}"] * bool(unknown)
        raise InputError(
            f"{path}: the header must name {', '.join(REQUIRED)}, each column once; "
            f"{'; '.join(wrong) or 'a column came twice'}.",
            hint=f"Further columns may be {', '.join(OPTIONAL)}.",
        )


STEP_ENGINES = ("vllm", "sglang", "trt", "atom")
"""Whose steps are told apart."""


class _Row:
    """One row's cells by column; its errors name row and column."""

    def __init__(self, number: int, header: list[str], cells: list[str]) -> None:
        self.number = number
        if len(cells) != len(header):
            raise InputError(
                f"row {number}: must have {len(header)} cells, got {len(cells)}.", hint="Mend the row's commas."
            )
        self._cells = {name: cell.strip() for name, cell in zip(header, cells, strict=True)}

    def fault(self, column: str, rule: str, *, hint: str = "Mend or remove the row.") -> InputError:
        return InputError(f"row {self.number}: {column} must be {rule}, got {self.text(column)!r:.80}.", hint=hint)

    def text(self, column: str) -> str:
        return self._cells.get(column, "")

    def name(self, column: str) -> str:
        if not self.text(column):
            raise self.fault(column, "a name")
        return self.text(column)

    def engine(self, column: str) -> str:
        name = self.text(column).lower()
        if name and name not in STEP_ENGINES:
            raise self.fault(column, f"{', '.join(STEP_ENGINES)}, or empty")
        return name

    def phase(self, column: str) -> Phase:
        if self.text(column) not in tuple(PHASES):
            raise self.fault(column, "prefill or decode")
        return Phase(self.text(column))

    def number_of(self, column: str, rule: str = "a positive number") -> float:
        value = number_of(self.text(column))
        if not 0 < value <= LARGEST:
            raise self.fault(column, f"{rule}, at most {LARGEST:g}" if value > LARGEST else rule)
        return value

    def count(self, column: str, default: int | None = None) -> int:
        if default is not None and not self.text(column):
            return default
        value = self.number_of(column, "a whole number of at least 1")
        if value != int(value):
            raise self.fault(column, "a whole number of at least 1")
        return int(value)

    def share(self, column: str) -> float | None:
        if not self.text(column):
            return None
        value = number_of(self.text(column))
        if not 0 <= value < 1:
            raise self.fault(column, "a share in [0, 1)")
        return value

    def flag(self, column: str) -> bool | None:
        flags: Mapping[str, bool | None] = {"": None, "0": False, "1": True, "false": False, "true": True}
        if self.text(column).lower() not in flags:
            raise self.fault(column, "0 or 1, or empty")
        return flags[self.text(column).lower()]


_COLUMNS: Mapping[str, Callable[[_Row, str], Any]] = {
    **dict.fromkeys(("gpu", "model"), _Row.name),
    "phase": _Row.phase,
    **dict.fromkeys(("tp", "dp", "ep", "length"), _Row.count),
    **dict.fromkeys(("batch", "ms"), _Row.number_of),
    "pp": lambda row, column: row.count(column, default=1),
    "kv_cache_rate": _Row.share,
    **dict.fromkeys(("two_micro_batches", "balanced"), _Row.flag),
    "kv_bytes": lambda row, column: row.number_of(column) if row.text(column) else None,
    "engine": _Row.engine,
    "fit": lambda row, column: row.flag(column) is not False,
    "source": _Row.text,
}
"""Column -> how its cells are read; `_cell` writes them."""
_FIELDS = {name: "fitted" if name == "fit" else name for name in _COLUMNS}
_FIRST_OPTIONAL = tuple(_COLUMNS).index("pp")
REQUIRED, OPTIONAL = tuple(_COLUMNS)[:_FIRST_OPTIONAL], tuple(_COLUMNS)[_FIRST_OPTIONAL:]


def _measurement(number: int, header: list[str], cells: list[str]) -> Measurement:
    row = _Row(number, header, cells)
    values = {_FIELDS[column]: read(row, column) for column, read in _COLUMNS.items()}
    measurement = Measurement(row=number, **values)
    if measurement.ep not in (1, measurement.tp * measurement.dp):
        raise row.fault("ep", f"tp x dp ({measurement.tp * measurement.dp}), or 1 in a dense model")
    return measurement


def measured_records(
    measurements: tuple[Measurement, ...], origin: str, further: Mapping[str, ModelSpec] | None = None
) -> tuple[dict[str, GpuSpec], dict[str, ModelSpec]]:
    """GPU types and models that measurements name, by name. `further` models stand beside the shipped ones.

    InputError where a name is unknown, or `ep` does not suit the model.
    """
    specs, shipped = load_gpu_specs(), shipped_models()
    gpus: dict[str, GpuSpec] = {}
    models: dict[str, ModelSpec] = dict(further or {})
    for m in measurements:
        if m.gpu not in specs:
            raise InputError(
                f"{origin}: row {m.row}: there is no GPU type {m.gpu!r}.",
                hint=nearest_hint(m.gpu, specs, noun="GPU types"),
            )
        gpus[m.gpu] = specs[m.gpu]
        if m.model not in models and m.model not in shipped:
            raise InputError(
                f"{origin}: row {m.row}: there is no model {m.model!r}.",
                hint=nearest_hint(m.model, shipped, noun="shipped models"),
            )
        if m.model not in models:
            models[m.model] = load_model(m.model)
        spread = m.tp * m.dp if models[m.model].experts else 1
        if m.ep != spread:
            raise InputError(
                f"{origin}: row {m.row}: ep must be {spread} for {m.model} at tp {m.tp}, dp {m.dp}, got {m.ep}.",
                hint="Experts are spread over tp x dp GPUs; a dense model has ep 1.",
            )
    return gpus, models
