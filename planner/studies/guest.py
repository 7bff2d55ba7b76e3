"""What the studies bring into the planner, which knows of them by the entry point in pyproject.toml alone."""

from pathlib import Path

from planner.guests import Guest, GuestCommand

STUDIES = Guest(
    panel="Studies",
    commands={
        "study": GuestCommand(help="Published evaluations, done again.", group="planner.studies.groups:study"),
        "simulate": GuestCommand(
            help="Traces of pods and requests on clusters, under online policies.",
            group="planner.studies.groups:simulate",
        ),
    },
    functions={"study": "planner.studies.front:study"},
    guides={"studies": Path(__file__).with_name("guide.md"), "papers": Path(__file__).with_name("papers.md")},
)
