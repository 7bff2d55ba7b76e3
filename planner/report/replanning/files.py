"""What a run folder holds of a change, beside the steps' manifests."""

import json
from collections.abc import Sequence

from planner.domain import Plan
from planner.domain.changes import ChangePoint, PlanChange
from planner.domain.rollouts import RollOut
from planner.report.kit.csv_tables import frame_csv
from planner.report.replanning.document import change_document
from planner.report.replanning.figures import CHANGE_FIGURES, change_figure
from planner.report.replanning.frames import change_frontier_frame, changes_frame, steps_frame
from planner.report.replanning.words import change_page

DOCUMENT, PAGE, TABLES = "changes.json", "change.md", "change"


def change_files(
    change: PlanChange, frontier: Sequence[ChangePoint], roll_out: RollOut, plan: Plan, notes: Sequence[str] = ()
) -> dict[str, bytes]:
    """Document and page, tables and figures below `change/`; `plan`: the new one."""
    from planner.report.kit.style import encoded  # noqa: PLC0415  # matplotlib takes a second to load

    name = plan.scenario.name
    document = json.dumps(change_document(change, frontier, roll_out, plan, notes), indent=2, ensure_ascii=False)
    return {
        DOCUMENT: f"{document}\n".encode(),
        PAGE: change_page(change, frontier, roll_out, plan, notes).encode(),
        f"{TABLES}/servers.csv": frame_csv(changes_frame(change)),
        f"{TABLES}/steps.csv": frame_csv(steps_frame(roll_out)),
        f"{TABLES}/frontier.csv": frame_csv(change_frontier_frame(frontier)),
        **{f"{TABLES}/{key}.png": encoded(change_figure(roll_out, frontier, key, name)) for key in CHANGE_FIGURES},
    }
