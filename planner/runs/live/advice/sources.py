"""Where engines and their metrics are looked for: a folder or a running cluster, a Prometheus or files of answers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from planner import files
from planner.domain.serving.observed import ObservedSeries
from planner.errors import InputError
from planner.runs.live.advice.advising import AdvisedFolder, advise
from planner.runs.live.advice.asking import ask, metered
from planner.runs.live.advice.finding import FoundEngines, find_engines, objects_of_documents, objects_of_folder
from planner.runs.live.advice.rebuilding import Terms
from planner.runs.live.api_resources import ADVISE, resources_of
from planner.runs.live.kubernetes import Kubernetes
from planner.runs.live.prometheus import Prometheus


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """One of `manifests` (a folder) and `cluster`; at most one of `prometheus` and `answers` (files)."""

    manifests: Path | None = None
    cluster: Kubernetes | None = None
    prometheus: Prometheus | None = None
    answers: tuple[Path, ...] = field(default=())

    @property
    def origin(self) -> str:
        """Names the place of the engines; no secret."""
        return str(self.manifests) if self.cluster is None else self.cluster.label

    def engines(self, terms: Terms) -> tuple[FoundEngines, tuple[str, ...]]:
        """The engines, and what could not be looked at. Raises InputError as `find_engines`, and where there is not one
        place to look at."""
        if (self.manifests is None) == (self.cluster is None):
            raise InputError(
                "advise: must be told where engines run, in one way.",
                hint="planner advise --kubernetes current asks a cluster; --manifests FOLDER reads objects.",
            )
        if self.prometheus is not None and self.answers:
            raise InputError("advise: answer files go without --prometheus.", hint="Leave one of them out.")
        if self.cluster is None:
            assert self.manifests is not None
            return find_engines(objects_of_folder(self.manifests), terms.hints, self.origin), ()
        lists = self.cluster.read(resources_of(ADVISE))
        objects = objects_of_documents(lists.documents(), self.origin)
        notes = tuple(f"{subject}: {note}" for subject, note in lists.notes)
        return find_engines(objects, terms.hints, self.origin), notes


def advised_of(
    sources: Sources,
    engines: FoundEngines,
    terms: Terms,
    out: Path,
    tell: Callable[[str], None] = lambda _step: None,
) -> AdvisedFolder:
    """The advice on engines, with what metrics tell of them, and the files of the folder `out`; nothing is written.
    Raises InputError as of `advise`, `ask` and `files.load_answers`."""
    terms = replace(terms, free=room_of(engines, terms.inventory))
    series: Sequence[ObservedSeries] = ()
    if sources.prometheus is not None:
        unknown = [service for service in engines.services if not terms.has_workload(service.name)]
        terms = replace(terms, metered=metered(sources.prometheus, unknown, terms.window))
        series = ask(sources.prometheus, engines.services, terms.window)
    elif sources.answers:
        series = files.load_answers(sources.answers, sparse=True)
    return advise(engines, terms, series, source=sources.origin, out=out, tell=tell)


def room_of(engines: FoundEngines, inventory: Mapping[str, int]) -> dict[str, int]:
    """GPUs that nothing has: of the inventory where one is given, else of the nodes. InputError where more run than
    there are."""
    claimed: dict[str, int] = {}
    for deployment in engines.deployments:
        if deployment.gpu and deployment.copies:
            claimed[deployment.gpu] = claimed.get(deployment.gpu, 0) + deployment.claimed_gpus
    if not inventory:
        return {gpu: count for gpu, count in (engines.free or {}).items() if count}
    for gpu, count in inventory.items():
        if count < claimed.get(gpu, 0):
            raise InputError(
                f"--inventory {gpu}={count}: must be at least the {claimed[gpu]} GPUs that run, got fewer.",
                hint="Count all GPUs at hand, those that run among them.",
            )
    room = {gpu: count - claimed.get(gpu, 0) for gpu, count in inventory.items()}
    return {gpu: count for gpu, count in room.items() if count}
