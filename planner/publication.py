"""A plan as the files of its run folder."""

from planner import export, files, report
from planner.domain import Plan


def publish(plan: Plan, *, target: str = "lws", engine: str = "vllm") -> dict[str, bytes]:
    """Every file of the run folder: relative path -> content. Nothing is written here."""
    manifests = export.render(plan, target=target, engine=engine)
    return {
        "plan.json": files.encode_plan(plan),
        "islands.csv": _csv(report.islands_frame(plan)),
        "routing.csv": _csv(report.routing_frame(plan)),
        "trials.csv": _csv(report.trials_frame(plan)),
        **report.render(plan),
        **{f"manifests/{name}": text.encode() for name, text in manifests.items()},
    }


def _csv(frame: "report.Frame") -> bytes:
    text: str = frame.to_csv(index=False, lineterminator="\n")
    return text.encode()
