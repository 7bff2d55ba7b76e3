"""The run folder of a changed plan: a run as any other, with the change, and the steps that lead to it."""

from collections.abc import Mapping
from dataclasses import dataclass

from planner.domain import Plan
from planner.domain.changes import ChangePoint, PlanChange
from planner.domain.rollouts import Replan, RollOut
from planner.errors import ExportError, InputError
from planner.files.plan.sealed_documents import with_seal
from planner.report.kit.quantities import counted
from planner.report.replanning.files import DOCUMENT, change_files
from planner.report.replanning.plots import change_plots
from planner.report.replanning.words import change_page
from planner.runs.exports import MANIFESTS, with_carried
from planner.runs.pages import written_page
from planner.runs.publication import Publication, publish
from planner.runs.replanning.steps import FOLDER, RolledOut, rolled_out

HTML = "change.html"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedPlan:
    """A plan that takes another's place. `change`: of `replan` as it can be carried out; `joining`: servers that would
    run on in other islands, and are started anew there. `lost`: island, and its servers that are lost; `guessed`: only
    a type of GPU was named, so it may have been others; `short`: types of which the inventory has fewer than ran."""

    replan: Replan
    change: PlanChange
    roll_out: RollOut
    joining: int = 0
    lost: tuple[tuple[str, int], ...] = ()
    guessed: bool = False
    short: tuple[str, ...] = ()

    @property
    def before(self) -> Plan:
        """What is deployed, less what is lost."""
        return self.replan.before

    @property
    def plan(self) -> Plan:
        """The new plan."""
        return self.replan.plan

    @property
    def frontier(self) -> tuple[ChangePoint, ...]:
        """The best plans for so many GPUs touched."""
        return self.replan.frontier

    @property
    def notes(self) -> tuple[str, ...]:
        """What the reader must be told of the change."""
        notes = []
        if self.lost:
            servers = ", ".join(f"{counted(count, 'server')} of {island}" for island, count in self.lost)
            others = (
                "; of a GPU type idle ones count first, then servers of its largest pool: name the island where it was "
                "others"
            )
            notes.append(f"lost: {servers}{others * self.guessed}")
        if self.short:
            notes.append(
                f"the inventory has fewer {' and '.join(self.short)} than ran, so servers beyond it count as lost; "
                "where they run until the change is done, say how many there are (--meanwhile)"
            )
        if self.joining:
            notes.append(
                f"{counted(self.joining, 'server')} that could run on must start anew: a copy cannot leave the island "
                "that it was started in"
            )
        return tuple(notes)


def publish_change(
    changed: ChangedPlan, *, deployed: Mapping[str, str], target: str = "", engine: str = ""
) -> Publication:
    """Every file of the folder; nothing is written here. `deployed`: the manifests that stand (name -> text).

    Where steps cannot be told as manifests, the run is published without them, and says so.
    """
    published = publish(changed.plan, engine=engine)
    contents = {**published.files, **_change_pages(changed)}
    try:
        steps = rolled_out(
            changed.before, changed.plan, changed.roll_out, deployed=deployed, target=target, engine=engine
        )
    except (ExportError, InputError) as error:
        note = f"no manifests of the steps were written: {error}"
        contents |= {f"{FOLDER}/NOT-WRITTEN.txt": f"{note}\n".encode()}
        return Publication(files=contents, warnings=(*published.warnings, note))
    return Publication(files=contents | _manifests(contents, steps), warnings=published.warnings)


def _manifests(contents: Mapping[str, bytes], steps: RolledOut) -> dict[str, bytes]:
    """The steps' files, and the new plan's manifests as they stand after the last."""
    carried = {f"{MANIFESTS}{name}": text for name, text in steps.manifests.items()}
    there = {path: text for path, text in carried.items() if path in contents}
    return with_carried(contents, there) | {path: text.encode() for path, text in steps.files.items()}


def _change_pages(changed: ChangedPlan) -> dict[str, bytes]:
    """What is told of the change."""
    results = (changed.change, changed.frontier, changed.roll_out, changed.plan, changed.notes)
    plots = change_plots(changed.roll_out, changed.frontier)
    return {**with_seal(change_files(*results), DOCUMENT), HTML: written_page(change_page(*results), plots)}
