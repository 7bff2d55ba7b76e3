"""A summary as it is read above a prompt."""


def answer_last(summary: str) -> str:
    """A finished plan as it is read above a prompt: its parts, then what it promises. Versions and digests are in the
    file."""
    from planner.report.plan.provenance import SOURCES

    head, *parts = summary.split("\n## ")
    sections = [f"## {part.strip()}" for part in parts if not part.startswith(SOURCES)]
    return "\n\n".join([*sections, head.strip()]) + "\n"
