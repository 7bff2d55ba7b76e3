"""`planner place --repairs`: single changes that win back what topology costs, written and shown."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.cli import screen
from planner.errors import InputError

if TYPE_CHECKING:
    from planner.domain import Plan, Scenario
    from planner.domain.defragmentation import RepairReport
    from planner.runs.replanning.repairing import RepairPaths, WrittenRepairs


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairsAtHand:
    """The repairs of a plan, as they lie in a folder."""

    report: "RepairReport"
    written: "WrittenRepairs"
    folder: Path

    def document(self) -> list[dict[str, Any]]:
        """A row an island, with its commands, as JSON has them."""
        from planner import report

        rows = report.repairs_table(self.report).records()
        repairs = [island.repair for island in self.report.islands]
        commands = [list(self.written.commands.get(repair, ())) if repair else [] for repair in repairs]
        return [{**row, "commands": words} for row, words in zip(rows, commands, strict=True)]

    def show(self, *, as_json: bool = False) -> None:
        """With the commands, in words, or as JSON alone."""
        if as_json:
            screen.show_json({"repairs": self.document()})
            return
        from planner import report
        from planner.report.kit.markdown import sections_text

        section = report.repairs_section(self.report, self.written.commands)
        screen.show_markdown("\n\n".join(sections_text([section])))
        screen.show_text(f"Written to {self.folder}")


def repair_paths(
    run: Path, cluster: Path, folder: Path, out: Path | None, options: Mapping[str, object], engine: str
) -> "RepairPaths":
    """What the commands are made of; `options`: those of placing, None where they were not given.

    Raises InputError where RUN would not be left to be placed again, or the folder would lie in a run.
    """
    from planner import files
    from planner.runs.replanning.repairing import RepairPaths

    if out is None:
        raise InputError(
            "--repairs: goes with --out, as its commands place RUN again, as it was; --out is missing.",
            hint="Give the placed plan a folder of its own with --out DIR.",
        )
    run = run if files.is_folder(run) else run.parent
    for place in (run, out):
        if folder.resolve().is_relative_to(place.resolve()):
            raise InputError(
                f"--repairs: must lie outside of RUN and of --out, got {folder}, which is in {place}.",
                hint="Give a folder beside them.",
            )
    given = ((name, value) for name, value in options.items() if value is not None and value is not False)
    words = tuple(word for name, value in given for word in ((name,) if value is True else (name, str(value))))
    return RepairPaths(run=run, cluster=cluster, folder=folder, options=words, engine=engine)


def repairs_at_hand(
    saved: "Plan", scenario: "Scenario", paths: "RepairPaths | None", *, force: bool
) -> RepairsAtHand | None:
    """Found and written; None where nobody asks."""
    if paths is None:
        return None
    from planner import files, pipeline
    from planner.evaluation.buckets.judging import layout_of
    from planner.runs.replanning.repairing import folder_files, folder_names, written_repairs

    files.claim_folder(paths.folder, folder_names(), force=force)
    repairs = pipeline.repairs(saved, scenario)
    written = written_repairs(repairs, scenario, layout_of(saved.outlook.pools), paths)
    files.write_folder(paths.folder, folder_files(repairs, written), force=force, kinds=folder_names())
    return RepairsAtHand(report=repairs, written=written, folder=paths.folder)
