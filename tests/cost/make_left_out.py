"""Makes planner/files/measurement_sets/left_out.csv.xz anew: what fits that did not see something predicted of it.

After a change of the paces, of what kernels say of a pass or of the evidence, in minutes a protocol (one after another
by their names; columns of the others stay):

    PYTHONPATH=tests/cost python tests/cost/make_left_out.py row configuration model gpu engine

What is left out at once, by protocol: a fifth of the settings (`row`), a tenth of the configurations, a model (all of
one shape: DeepSeek-R1 is V3 trained further), a GPU type, an engine. A cell is empty where nothing would be carried
over: of a GPU type whose model was measured on no other, of an engine that alone ran the model on the type.
"""

import csv
import hashlib
import io
import lzma
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

from benchmark_evidence import all_evidence

from planner.cost.benchmarks.engines import habits
from planner.cost.benchmarks.fit import Evidence
from planner.cost.benchmarks.pace_fit import fit_paces, paced_runs
from planner.cost.benchmarks.prediction import asked_figures, figures
from planner.cost.kernels import kernel_tables
from planner.domain import Measurement, ModelSpec, NamedRun
from planner.files.disk.opening import text_lines
from planner.files.tables.measurements import LEFT_OUT

PARTS = {"row": 5, "configuration": 10}
PROTOCOLS = ("row", "configuration", "model", "gpu", "engine")
Place = tuple[str, int, str, str]
"""File, row, metric and kind of a figure."""


def folds(evidence: Evidence, by: str) -> Iterator[tuple[Evidence, Evidence]]:
    """(what a fit sees, what is left out of it), so that everything is left out once."""
    steps = {m.row: _of_step(m, evidence.models[m.model])[by] for m in evidence.measurements}
    runs = {id(entry): _of_run(entry)[by] for entry in evidence.runs if not entry.reason}
    for part in sorted({*steps.values(), *runs.values()} - {""}):
        seen, left = (
            replace(
                evidence,
                measurements=tuple(m for m in evidence.measurements if (steps[m.row] == part) == wanted),
                runs=tuple(e for e in evidence.runs if id(e) in runs and (runs[id(e)] == part) == wanted),
            )
            for wanted in (False, True)
        )
        yield seen, left


Places = frozenset[tuple[str, str]]
"""The networks and the GPU types that they ran on."""


def places_of(seen: Evidence) -> Places:
    """Where a fit has seen runs."""
    return frozenset((shape_of(entry.model), entry.run.gpu) for entry in seen.runs if entry.model is not None)


def carried(places: Places, entry: NamedRun, by: str) -> bool:
    """Whether a fit that saw these places carries over to the run what the protocol asks for."""
    assert entry.model is not None
    if by == "gpu":
        return shape_of(entry.model) in {shape for shape, _ in places}
    return by != "engine" or (shape_of(entry.model), entry.run.gpu) in places


@cache
def shape_of(model: ModelSpec) -> str:
    """The network, whatever it was trained to and whatever its precision."""
    return repr((model.hidden_size, model.vocab_size, model.groups))


def _of_run(entry: NamedRun) -> dict[str, str]:
    """What a run is left out with, by protocol."""
    run = entry.run
    assert entry.model is not None
    shape, engine = shape_of(entry.model), habits(run.engine).name if run.engine else ""
    lengths, pools = (run.load, run.input_tokens, run.output_tokens), (run.prefill, run.decode)
    own = run.precision
    precision = (own.weight_bytes, own.expert_bytes, own.kv_bytes, own.mtp_tokens)
    configuration = (run.gpu, shape, engine, precision, lengths, pools)
    return {
        "row": _part((*configuration, run.concurrency, run.batch_per_rank), "row"),
        "configuration": _part(configuration, "configuration"),
        **{"model": shape, "gpu": run.gpu, "engine": engine},
    }


def _of_step(m: Measurement, model: ModelSpec) -> dict[str, str]:
    """Steps are of no engine that others measured."""
    setting = (m.gpu, shape_of(model), m.phase, m.tp, m.dp, m.length, m.batch)
    parts = {by: _part(setting, by) for by in PARTS}
    return {**parts, "model": shape_of(model), "gpu": m.gpu, "engine": ""}


def _part(setting: object, by: str) -> str:
    """One of the parts, drawn by what is left out together."""
    return str(int(hashlib.sha256(repr(setting).encode()).hexdigest(), 16) % PARTS[by])


def left_out(evidence: Evidence, by: str) -> Iterator[tuple[Place, float]]:
    """What was predicted of every figure by paces that had left it out, where there is an answer."""
    runs_by_row = {(of.file, of.row): [] for of in (entry.run for entry in evidence.runs)}
    for entry, run in paced_runs([entry for entry in evidence.runs if not entry.reason and not entry.run.doubt]):
        runs_by_row[entry.run.file, entry.run.row].append(run)
    for seen, left in folds(evidence, by):
        paces = fit_paces([run for entry in seen.runs for run in runs_by_row[entry.run.file, entry.run.row]]).paces
        places, by_run = places_of(seen), {(entry.run.file, entry.run.row): entry for entry in left.runs}
        for figure in figures(left.runs, among=evidence.runs, paces=paces):
            run = figure.run
            if figure.predicted is not None and carried(places, by_run[run.file, run.row], by):
                yield (Path(run.file).name, run.row, str(figure.metric), figure.kind), figure.predicted


def by_formulas(evidence: Evidence) -> set[Place]:
    """Figures that formulas alone predict, whose factors are fitted to them: step times, and runs on types without
    measured kernels. What fits without them predicted stays on record."""
    steps = {("published.csv", m.row, "step_ms", "step time") for m in evidence.measurements}
    runs = [e for e in evidence.runs if kernel_tables(e.run.gpu, KERNELS_OF.get(habits(e.run.engine).name, "")) is None]
    figures_of = {(Path(e.run.file).name, e.run.row, str(metric), kind) for e, metric, kind in asked_figures(runs)}
    return steps | figures_of


KERNELS_OF = {"trt": "trtllm", "sglang": "sglang", "vllm": "vllm"}


def main() -> None:
    columns = [f"by_{by}" for by in PROTOCOLS]
    table: dict[Place, dict[str, str]] = {}
    for row in csv.DictReader(text_lines(LEFT_OUT)):
        place = (row["file"], int(row["row"]), row["metric"], row["kind"])
        table[place] = {column: row[column] for column in columns}
    evidence = all_evidence()
    for by in sys.argv[1:] or PROTOCOLS:
        stays = {place for place in by_formulas(evidence) if table.get(place, {}).get(f"by_{by}")}
        for place, cells in table.items():
            if place not in stays:
                cells[f"by_{by}"] = ""
        for place, value in left_out(evidence, by):
            if place not in stays:
                table.setdefault(place, dict.fromkeys(columns, ""))[f"by_{by}"] = f"{value:.6g}"
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("file", "row", "metric", "kind", *columns))
    writer.writerows((*place, *cells.values()) for place, cells in sorted(table.items()) if any(cells.values()))
    LEFT_OUT.write_bytes(lzma.compress(text.getvalue().encode(), preset=9 | lzma.PRESET_EXTREME))


if __name__ == "__main__":
    main()
