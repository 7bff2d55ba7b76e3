"""A roll-out as stages for whoever applies folders: all that stands after each half of a step, in waves, with the gate
that the next one waits for.

A stage is one folder, and one commit: `kustomization.yaml` with a file a wave, and `gate.yaml`, the questions to
Prometheus. Argo CD applies waves one after the other, each when the one before is healthy; Flux applies all at once,
which HAProxy's health checks allow for. Where a step stops servers, routers come before them; where it starts some,
after.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from planner import export
from planner.domain import Plan
from planner.domain.rollouts import GateQuery
from planner.export.checking.carrying import Objects, engines_of, standing
from planner.export.objects.documents import yaml_text
from planner.files import catalog
from planner.files.disk.strict_yaml import parse_yaml
from planner.files.records import read_record, record_document
from planner.runs.runbook import goes_with_engines

FOLDER, GATE, KUSTOMIZATION, APPLICATION = "stages", "gate.yaml", "kustomization.yaml", "argocd-application.yaml"
_WAVE = "argocd.argoproj.io/sync-wave"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stand:
    """All objects that stand once half a step is carried out, and the `plan` that they serve. `starts`: engines come
    before routers, as they have to be ready; else after, as nothing may be sent to them any more."""

    title: str
    plan: Plan
    objects: Objects
    starts: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Gates:
    """What a gate asks. `engine`: that runs; `window`: of times, as 5m; `levels`: whether times must be within the
    levels, which is left out where these are broken already, as they are the reason for the change."""

    engine: str
    window: str
    levels: bool = True


def first_stand(plan: Plan, manifests: Mapping[str, str]) -> Stand:
    """A plan that is deployed as a whole. Raises ExportError where no steps could lead from it to another."""
    engines_of(manifests)
    return Stand(title=f"Plan {plan.scenario.name}", plan=plan, objects=standing(manifests))


def stage_files(stand: Stand, gates: Gates) -> dict[str, bytes]:
    """Name -> content of a stage's folder."""
    waves: dict[str, list[Mapping[str, Any]]] = {}
    for manifest in stand.objects.values():
        wave = int(goes_with_engines(manifest) != stand.starts)
        waves.setdefault(f"wave-{wave}.yaml", []).append(_in_wave(manifest.body, wave))
    planned = stand.plan.scenario.engine
    profile = planned if planned.name == gates.engine else catalog.engine(gates.engine)
    questions = export.gate_queries(stand.plan, profile, gates.window, levels=gates.levels)
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": sorted(waves),
    }
    texts = {
        KUSTOMIZATION: yaml_text([f"{stand.title}."], [kustomization]),
        **{name: yaml_text([f"{stand.title}."], bodies) for name, bodies in sorted(waves.items())},
        GATE: _gate_text(questions),
        APPLICATION: _application(stand.plan),
    }
    return {name: text.encode() for name, text in texts.items()}


def _in_wave(body: Mapping[str, Any], wave: int) -> Mapping[str, Any]:
    annotations = {**(body["metadata"].get("annotations") or {}), _WAVE: str(wave)}
    return {**body, "metadata": {**body["metadata"], "annotations": annotations}}


def _gate_text(questions: Sequence[GateQuery]) -> str:
    lines = [
        "What Prometheus must say of this stage before the next one: every value from at_least to at_most; no answer",
        "is 0 where attention groups are counted, and fine where times are.",
    ]
    return yaml_text(lines, [{"gate": [record_document(question) for question in questions]}])


def _application(plan: Plan) -> str:
    """An Argo CD Application of the folder, to begin with: the planner applies nothing itself."""
    label = export.plan_label(plan)
    scaled = plan.scenario.deploy.autoscaling != "none"
    spec: dict[str, Any] = {
        "project": "default",
        "source": {"repoURL": "REPOSITORY", "targetRevision": "HEAD", "path": label},
        "destination": {"server": "https://kubernetes.default.svc", "namespace": "NAMESPACE"},
        "syncPolicy": {"automated": {"prune": True, "selfHeal": not scaled}},
    }
    if scaled:
        # copies belong to the autoscaler: a sync must not set them back
        version, kind = export.TARGETS[plan.scenario.deploy.target].scaled or ("", "")
        group = version.partition("/")[0]
        spec["ignoreDifferences"] = [{"group": group, "kind": kind, "jsonPointers": ["/spec/replicas"]}]
        spec["syncPolicy"]["syncOptions"] = ["RespectIgnoreDifferences=true"]
    body = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": {"name": label, "namespace": "argocd"},
        "spec": spec,
    }
    return yaml_text(["Fill in REPOSITORY and NAMESPACE, and apply it once where Argo CD runs."], [body])


def read_gate(text: str, origin: str) -> tuple[GateQuery, ...]:
    """The questions of a gate's file. InputError where it is damaged."""
    rows = parse_yaml(text, file=origin).sections("gate")
    return tuple(read_record(GateQuery, row) for row in rows)
