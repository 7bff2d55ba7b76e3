"""How the releases of an export are installed: the helmfile's rows are what `releases.yaml` holds."""

from collections.abc import Mapping

from planner.export.seams import Step
from planner.export.targets.llm_d.release_values import CHART, parse_yaml


def install_steps(files: Mapping[str, str], /) -> tuple[Step, ...]:
    """Helm takes every release of `releases.yaml`."""
    releases = [release for document in parse_yaml(files["releases.yaml"]) for release in document["releases"]]  # type: ignore[index]
    names = [str(release["name"]) for release in releases]
    return (
        Step(
            title="Engines",
            why=f"Helm must know the chart's repository under the name {CHART}; helmfile installs every release.",
            commands=(f"helm repo list | grep {CHART}", "helmfile --namespace NAMESPACE -f releases.yaml apply"),
            looks=tuple(f"helm status {name} --namespace NAMESPACE" for name in names),
            undo=tuple(f"helm uninstall {name} --namespace NAMESPACE" for name in reversed(names)),
        ),
    )
