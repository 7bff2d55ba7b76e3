"""Fragmentation of a cluster by class of pods and by cause, as a table and as JSON."""

from dataclasses import asdict

from planner.domain import WHOLE_GPU, Fragmentation, FragmentCause, TypicalPod
from planner.report.kit.markdown import escaped, table
from planner.report.kit.quantities import NONE, percent, whole

MOST_CLASSES = 12
"""Classes that the page lists, the most frequent ones."""

NOISE = 1e-6
LEAST = 0.1
"""GPUs: what is told as whole, and the least that is told."""

_CAUSES = ("short_of_gpu", "short_of_cpu", "short_of_both", "not_allowed", "too_small")
_HEADER = ("Pods like", "Share", "Usable", "Too few GPUs", "Too few CPUs", "Too few of both")
_RARE = {"not_allowed": "Other model", "too_small": "Too full"}


def causes_table(fragmentation: Fragmentation) -> str:
    """A row a class of pods, GPUs by what becomes of them; the last row weighs the classes by their share."""
    if not fragmentation.idle_gpu_milli:
        return "No GPU is idle."
    rare = [name for name in _RARE if any(getattr(cause, name) for _, cause in fragmentation.classes)]
    total = sum(pod.weight for pod, _ in fragmentation.classes)
    listed = sorted(fragmentation.classes, key=lambda item: -item[0].weight)
    rows = [[_words(pod), percent(pod.weight / total), *_cells(cause, rare)] for pod, cause in listed[:MOST_CLASSES]]
    if len(listed) > MOST_CLASSES:
        unlisted = sum(pod.weight for pod, _ in listed[MOST_CLASSES:]) / total
        columns = 4 + len(rare)
        rows.append([f"{len(listed) - MOST_CLASSES:,} further kinds", percent(unlisted), *[NONE] * columns])
    rows.append(["**expected**", "", *_cells(fragmentation.causes, rare)])
    return table([*_HEADER, *(_RARE[name] for name in rare)], rows, "l" + "r" * (5 + len(rare)))


def causes_lead(fragmentation: Fragmentation) -> str:
    """What the table shows, in a sentence or two."""
    kinds = "Kinds are those of the pods with GPUs that run here, where there are none requests of 1, 2, 4 and 8 GPUs."
    if not fragmentation.idle_gpu_milli:
        return kinds
    return (
        f"Of the {_gpus(fragmentation.idle_gpu_milli)} GPUs that are idle, where it is known which, the next pod "
        f"cannot use **{percent(fragmentation.ratio)}** on average. {kinds} Idle GPUs by what keeps each "
        "kind from them:"
    )


def _cells(cause: FragmentCause, rare: list[str]) -> list[str]:
    names = ("usable", *(name for name in _CAUSES if name not in _RARE), *rare)
    return [_gpus(getattr(cause, name)) for name in names]


def _gpus(milli: float) -> str:
    """GPUs, to a tenth where they are not whole."""
    gpus = milli / WHOLE_GPU
    if abs(gpus - round(gpus)) < NOISE:
        return whole(gpus)
    return f"{gpus:,.1f}" if gpus >= LEAST else f"<{LEAST:g}"


def _words(pod: TypicalPod) -> str:
    cpus = f", {pod.cpu_milli / 1000:g} CPUs" if pod.cpu_milli else ""
    part = (
        f"{pod.gpu_milli / WHOLE_GPU:g} GPU" if pod.gpu_milli < WHOLE_GPU else f"{pod.gpus} GPU{'s' * (pod.gpus > 1)}"
    )
    spec = f", {escaped(pod.gpu_spec)}" if pod.gpu_spec else ""
    return (part if pod.gpus else "no GPU") + cpus + spec


def causes_document(fragmentation: Fragmentation) -> dict[str, object]:
    """The same as JSON has it, milli-GPU; every class."""
    return {
        "idle_gpu_milli": fragmentation.idle_gpu_milli,
        "ratio": fragmentation.ratio,
        "causes": asdict(fragmentation.causes),
        "classes": [asdict(pod) | {"causes": asdict(cause)} for pod, cause in fragmentation.classes],
    }
