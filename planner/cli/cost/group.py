"""`planner cost`: what a step costs, how good the model is, fitting it to your own measurements, what to measure."""

import typer

from planner.cli.cost import accuracy as cost_accuracy
from planner.cli.cost import calibrate as cost_calibrate
from planner.cli.cost import explain as cost_explain
from planner.cli.cost import kernels as cost_kernels
from planner.cli.cost import measure as cost_measure

group = typer.Typer(help="The cost model: explained, judged, calibrated.", no_args_is_help=True)
group.command("explain")(cost_explain.command)
group.command("configurations")(cost_explain.configurations)
group.command("calibrate")(cost_calibrate.command)
group.command("accuracy")(cost_accuracy.command)
group.command("measure")(cost_measure.command)
group.add_typer(cost_kernels.group, name="kernels")
