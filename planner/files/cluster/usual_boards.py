"""The boards that GPUs usually come on, from usual_boards.yaml beside this file."""

from functools import cache
from pathlib import Path

from planner.domain.cluster import HIGHEST_NUMA
from planner.domain.node_report import UsualBoard
from planner.files.cluster.cluster_sections import whole_numbers
from planner.files.disk.documents import read_yaml
from planner.files.sections import Section


@cache
def usual_boards() -> tuple[UsualBoard, ...]:
    """All rows, in order: the first that fits counts."""
    return tuple(_board(row) for row in read_yaml(Path(__file__).with_name("usual_boards.yaml")).sections("boards"))


def _board(row: Section) -> UsualBoard:
    return UsualBoard(
        machine=row.text("machine", default=""),
        types=row.texts("types") if "types" in row else (),
        numa=whole_numbers(row, "numa", HIGHEST_NUMA),
        sockets=whole_numbers(row, "sockets", HIGHEST_NUMA),
    )
