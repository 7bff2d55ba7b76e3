"""`planner study` and `planner simulate`: the commands of every study, in two groups."""

import typer

from planner.studies.asi.command import command as asi
from planner.studies.chapter5.command import command as chapter5
from planner.studies.chapter5.mixes.command import command as mixes
from planner.studies.chapter5.readings.command import command as readings
from planner.studies.defragmentation.command import command as defragmentation
from planner.studies.guest import STUDIES
from planner.studies.papers.command import command as papers
from planner.studies.placed.command import command as placed
from planner.studies.policies.cluster_command import command as cluster
from planner.studies.policies.pwr_command import command as pwr
from planner.studies.policies.queue_command import command as queue
from planner.studies.preemption.command import command as preemption
from planner.studies.serving.command import command as serving
from planner.studies.serving.reconciled.command import command as warsaw
from planner.studies.spot.command import command as spot

study = typer.Typer(help=STUDIES.commands["study"].help, no_args_is_help=True)
study.command("asi")(asi)
study.command("pwr")(pwr)
study.command("chapter5")(chapter5)
study.command("mixes")(mixes)
study.command("readings")(readings)
study.command("placed")(placed)
study.command("papers")(papers)
study.command("warsaw")(warsaw)

simulate = typer.Typer(help=STUDIES.commands["simulate"].help, no_args_is_help=True)
simulate.command("cluster")(cluster)
simulate.command("queue")(queue)
simulate.command("spot")(spot)
simulate.command("preemption")(preemption)
simulate.command("serving")(serving)
simulate.command("defragmentation")(defragmentation)
