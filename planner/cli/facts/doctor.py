"""`planner doctor`: does the installation work?"""

from typing import Annotated

import typer

from planner.cli import screen
from planner.errors import EXIT_FAILURE


def command(json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False) -> None:
    """Check the installation: Python, packages, shipped data, the solver, figures; a tiny plan in seconds.

    Exit status 0 where everything works, 1 where something is broken; what to do stands beside it.
    """
    from dataclasses import asdict

    from planner.cli.facts.installation import examine, is_sound

    findings = list(examine(screen.encoding()))
    if json:
        screen.show_json({"sound": is_sound(findings), "findings": [asdict(finding) for finding in findings]})
    else:
        rows = [(finding.subject, finding.health.value, finding.seen) for finding in findings]
        screen.show_table("Installation", ("subject", "health", "seen"), rows)
        for finding in findings:
            if finding.remedy:
                screen.show_prose(f"{finding.subject}: {finding.remedy}")
        screen.show_text("Everything works." if is_sound(findings) else "Something is broken.")
    if not is_sound(findings):
        raise typer.Exit(EXIT_FAILURE)
