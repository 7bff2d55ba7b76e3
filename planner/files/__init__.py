"""The only part that touches the disk: facts, traces and scenarios read strictly, runs written whole."""

from planner.files.folders import claim_run_folder, write_folder, write_run
from planner.files.gpu_specs import load_gpu_spec, load_gpu_specs
from planner.files.models import load_model
from planner.files.plan_document import encode_plan, plan_document, plan_schema
from planner.files.runs import load_run
from planner.files.scenario_documents import scenario_document
from planner.files.scenarios import load_scenario, scenario_from_document
from planner.files.shipped import shipped_models, shipped_scenarios, shipped_workloads
from planner.files.traces import read_trace
from planner.files.workload_writer import workload_path, write_workload
from planner.files.workloads import load_workload

__all__ = [
    "claim_run_folder",
    "encode_plan",
    "load_gpu_spec",
    "load_gpu_specs",
    "load_model",
    "load_run",
    "load_scenario",
    "load_workload",
    "plan_document",
    "plan_schema",
    "read_trace",
    "scenario_document",
    "scenario_from_document",
    "shipped_models",
    "shipped_scenarios",
    "shipped_workloads",
    "workload_path",
    "write_folder",
    "write_run",
    "write_workload",
]
