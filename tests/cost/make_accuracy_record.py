"""Writes what `planner cost accuracy` says on record, after a change of the fit, its evidence or the peer (seconds):

    make accuracy

`slices.csv` beside this file has each slice's mean error, against which `test_accuracy_record.py` holds later ones; the
tables of the guide are those of `planner cost accuracy --markdown`, and the README repeats some figures.
"""

import csv
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from benchmark_evidence import all_evidence

from planner.cost import accuracy, judged_runs, judged_step, with_records
from planner.domain import Accuracy, SliceError
from planner.files import load_left_out, load_peer
from planner.report import accuracy_table
from planner.report.kit.markdown import block_text

SLICES = Path(__file__).parent / "slices.csv"
GUIDE = Path(__file__).parents[2] / "planner/cli/docs/guides/results.md"
README = Path(__file__).parents[2] / "README.md"
# words of the README before a figure -> the slice
TOLD = {
    "saturated throughput is off\\s+by": "saturated throughput",
    "aggregated serving by": "aggregated rate",
    "TPOT of decode pools by": "disaggregated decode TPOT",
    "prefill pools by": "saturated prefill",
}
BEGIN, END = "<!-- accuracy -->\n", "<!-- end of accuracy -->"


@cache
def scoreboard() -> Accuracy:
    """What the command judges without a file."""
    given = all_evidence()
    judged = list(judged_runs(given.runs))
    judged += [
        judged_step(m, given.gpus[m.gpu], given.models[m.model], None, file="published.csv") for m in given.measurements
    ]
    return accuracy(with_records(judged, left_out=load_left_out(), peer=load_peer()))


def recorded() -> dict[tuple[str, str], tuple[int, float]]:
    """Figures and mean error by dimension and name."""
    with SLICES.open(encoding="utf-8", newline="") as stream:
        return {
            (row["dimension"], row["name"]): (int(row["figures"]), float(row["mean_error"]))
            for row in csv.DictReader(stream)
        }


def write_slices(slices: Iterable[SliceError]) -> None:
    with SLICES.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(("dimension", "name", "figures", "mean_error"))
        writer.writerows((s.dimension, s.name, s.points, f"{s.mean:.4f}") for s in slices)


def readme(text: str, judged: Accuracy) -> str:
    """The README with the figures of today."""
    errors = {s.name: s.mean for s in judged.slices if s.dimension == "figure"}
    for words, name in TOLD.items():
        text = re.sub(rf"({words}) [\d.]+ %", rf"\g<1> {100 * errors[name]:.1f} %", text)
    pairs = f"{judged.in_order} of {judged.pairs} pairs of GPU types come out"
    return re.sub(r"\d+ of \d+ pairs of GPU types come out", pairs, text)


def main() -> None:
    judged = scoreboard()
    write_slices(judged.slices)
    README.write_text(readme(README.read_text(encoding="utf-8"), judged), encoding="utf-8")
    before, _, rest = GUIDE.read_text(encoding="utf-8").partition(BEGIN)
    tables = "\n\n".join(map(block_text, accuracy_table(judged)))
    GUIDE.write_text(f"{before}{BEGIN}{tables}\n{END}{rest.partition(END)[2]}", encoding="utf-8")


if __name__ == "__main__":
    main()
