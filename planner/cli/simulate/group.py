"""`planner simulate`: what becomes of pods and requests that arrive at a cluster one by one."""

import typer

from planner.cli.simulate.cluster import command as cluster_command
from planner.cli.simulate.preemption import command as preemption_command
from planner.cli.simulate.queue import command as queue_command
from planner.cli.simulate.serving import command as serving_command
from planner.cli.simulate.spot import command as spot_command
from planner.cli.studies.defragmentation import command as defragmentation_command

group = typer.Typer(help="Traces of pods and requests on clusters, under online policies.", no_args_is_help=True)
group.command("cluster")(cluster_command)
group.command("queue")(queue_command)
group.command("spot")(spot_command)
group.command("preemption")(preemption_command)
group.command("serving")(serving_command)
group.command("defragmentation")(defragmentation_command)


@group.callback()
def _group() -> None:
    """Traces of pods and requests on clusters, under online policies."""
