"""CSV that is opened in a spreadsheet: nothing in it is run, and nothing else is touched."""

import csv
import io

import pandas as pd
import pytest

from planner.report.kit.tables import csv_table, frame_csv

FORMULAS = ("=1+1", "+1+1", "-1+1", "@SUM(A1)", '=HYPERLINK("http://x";"y")', "-node", "\tnode")
PLAIN = ("node-1", "-", "-5", "-5.5", "+3", "-1e9", "-5 %", "+3%", "a=b", "", "-inf")


@pytest.mark.parametrize("text", FORMULAS)
def test_formulas_are_made_texts(text: str) -> None:
    for data in (csv_table((text, "b"), [(text, 1.5)]), frame_csv(pd.DataFrame({text: [text], "b": [1.5]}))):
        assert list(csv.reader(io.StringIO(data.decode(), newline=""))) == [[f"'{text}", "b"], [f"'{text}", "1.5"]]


@pytest.mark.parametrize("text", PLAIN)
def test_other_cells_are_as_they_were(text: str) -> None:
    frame = pd.DataFrame({"a": [text, "=x"], "b": [-1.5, 2.25], "c": [None, -3]})
    (_, first, _) = csv.reader(io.StringIO(frame_csv(frame).decode(), newline=""))
    assert first == [text, "-1.5", ""]
    assert frame_csv(frame[:1]).decode() == frame[:1].to_csv(index=False, lineterminator="\n")
