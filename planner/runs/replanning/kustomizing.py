"""`kustomization.yaml`: a folder of manifests for whoever applies folders, in waves that follow from `runbook.STAGES`.

Resources are listed in the order of their waves. Argo CD applies a wave once the one before is healthy, by an
annotation that kustomize patches onto every object; the files themselves have none, and kubectl passes it over.

Sources: kustomize.config.k8s.io/v1beta1 (a patch's target: kind, and name as a regular expression); Argo CD, sync
waves.
"""

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any

from planner import export
from planner.export.checking.structure import KUSTOMIZATION
from planner.export.objects.documents import yaml_text
from planner.runs.runbook import wave_of

WAVE = "argocd.argoproj.io/sync-wave"


def kustomization_files(files: Mapping[str, str]) -> dict[str, str]:
    """The file for manifests (name -> text), with every Kubernetes object in its wave; none where there is no such
    object. What Helm or a shell starts is in none."""
    objects = [manifest for manifest, _ in export.read_manifests(files).sound if manifest.api_version]
    if not objects:
        return {}
    first: dict[str, int] = {}
    for manifest in objects:
        first[manifest.file] = min(first.get(manifest.file, wave_of(manifest)), wave_of(manifest))
    others = sorted(name for name in files if name not in first and name.endswith((".values.yaml", "releases.yaml")))
    comments = [
        "All objects of this folder: kubectl apply -k . --namespace NAMESPACE",
        "Argo CD applies them in waves: what the cluster must know, engines, routers, what watches and scales them.",
        *(["Not in it, as Helm installs them: " + ", ".join(others)] if others else []),
    ]
    body = {
        **kustomization(sorted(first, key=lambda name: (first[name], name))),
        "patches": list(_patches(objects)),
    }
    return {KUSTOMIZATION: yaml_text(comments, [body])}


def kustomization(resources: Iterable[str]) -> dict[str, Any]:
    """The object over files, in their order."""
    return {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": list(resources),
    }


def _patches(objects: Iterable[export.Manifest]) -> Iterable[dict[str, Any]]:
    """One for the objects of a kind in a wave: all of the kind, or by their names where they are in several."""
    waves: dict[tuple[str, str], dict[int, list[str]]] = {}
    for manifest in objects:
        of_kind = waves.setdefault((manifest.api_version, manifest.kind), {})
        of_kind.setdefault(wave_of(manifest), []).append(manifest.name)
    rows = sorted((wave, key, names) for key, of_kind in waves.items() for wave, names in of_kind.items())
    for wave, of_wave in groupby(rows, key=lambda row: row[0]):
        for _, (version, kind), names in of_wave:
            group, _, number = version.rpartition("/")
            several = {"name": "|".join(sorted(set(names)))} if len(waves[version, kind]) > 1 else {}
            body = {
                "apiVersion": version,
                "kind": kind,
                "metadata": {"name": "any", "annotations": {WAVE: str(wave)}},
            }
            yield {
                "target": ({"group": group} if group else {}) | {"version": number, "kind": kind} | several,
                "patch": yaml_text((), [body]).removeprefix("---\n"),
            }
