"""The only part that touches the disk: facts, traces and scenarios read strictly, runs written whole."""

from typing import TYPE_CHECKING

from planner.doors import door
from planner.files.engines import engine_profiles, load_engine

if TYPE_CHECKING:
    from planner.files.benchmarks.benchmark_files import (
        load_benchmarks,
        load_given_benchmarks,
        require_names,
        resolve_names,
    )
    from planner.files.benchmarks.conditions import Conditions
    from planner.files.cluster.churn_tasks import load_tasks
    from planner.files.cluster.cluster_documents import cluster_document
    from planner.files.cluster.cluster_sections import cluster_from_section
    from planner.files.cluster.clusters import cluster_text, load_cluster, write_cluster
    from planner.files.disk.documents import input_hash
    from planner.files.disk.folders import PAGE_FILE, claim_folder, claim_run_folder, write_folder, write_run
    from planner.files.disk.manifest_folders import load_manifests, load_recipes, load_schemas
    from planner.files.disk.names import (
        chart_script,
        shipped_models,
        shipped_rate_curves,
        shipped_scenarios,
        shipped_workloads,
    )
    from planner.files.disk.opening import is_folder, is_there
    from planner.files.disk.pages import page_of, write_page
    from planner.files.disk.single_files import files_written, refuse_existing, write_file, write_files
    from planner.files.kubernetes.prometheus_answers import (
        load_answers,
        load_traffic,
        read_answers,
        read_traffic,
        read_values,
    )
    from planner.files.models.gpu_specs import load_gpu_spec, load_gpu_specs
    from planner.files.models.model_documents import model_document
    from planner.files.models.models import load_model
    from planner.files.plan.export_records import (
        EXPORT_RECORD_FILE,
        export_record_of,
        export_record_text,
        load_digests,
        load_export_record,
    )
    from planner.files.plan.journals import Journal, Undertaking, holds_search, recover
    from planner.files.plan.plan_document import encode_plan, plan_digest, plan_document, plan_files
    from planner.files.plan.plan_schemas import plan_schema
    from planner.files.plan.runs import REPLAY_FILE, engine_of, holds_run, load_run, load_stored_replay, search_files
    from planner.files.scenario.offers import (
        listed_offer,
        load_offer,
        load_price_list,
        offer_from_document,
        price_list_from_document,
    )
    from planner.files.scenario.scenario_documents import (
        all_differences,
        deciding_differences,
        scenario_document,
        scenario_hash,
        scenario_keys,
        scenario_text,
    )
    from planner.files.scenario.scenarios import load_scenario, scenario_from_document, scenario_path
    from planner.files.tables.calibrations import (
        calibration_text,
        load_calibration,
        write_calibration,
        write_runs_calibration,
    )
    from planner.files.tables.measurements import (
        STEP_ENGINES,
        is_step_table,
        load_left_out,
        load_measurements,
        load_peer,
        load_published_measurements,
        measured_records,
    )
    from planner.files.tables.rates import load_rate_curve, load_rates
    from planner.files.tables.traces.reader import read_trace
    from planner.files.tables.workloads import load_workload, workload_path, workload_text, write_workload

_HOMES = {
    "planner.files.benchmarks.benchmark_files": "load_benchmarks load_given_benchmarks require_names resolve_names",
    "planner.files.benchmarks.conditions": "Conditions",
    "planner.files.cluster.cluster_documents": "cluster_document",
    "planner.files.cluster.cluster_sections": "cluster_from_section",
    "planner.files.cluster.churn_tasks": "load_tasks",
    "planner.files.cluster.clusters": "cluster_text load_cluster write_cluster",
    "planner.files.disk.documents": "input_hash",
    "planner.files.disk.folders": "PAGE_FILE claim_folder claim_run_folder write_folder write_run",
    "planner.files.disk.manifest_folders": "load_manifests load_recipes load_schemas",
    "planner.files.disk.names": "chart_script shipped_models shipped_rate_curves shipped_scenarios shipped_workloads",
    "planner.files.disk.opening": "is_folder is_there",
    "planner.files.disk.pages": "page_of write_page",
    "planner.files.disk.single_files": "files_written refuse_existing write_file write_files",
    "planner.files.kubernetes.prometheus_answers": "load_answers load_traffic read_answers read_traffic read_values",
    "planner.files.models.gpu_specs": "load_gpu_spec load_gpu_specs",
    "planner.files.models.model_documents": "model_document",
    "planner.files.models.models": "load_model",
    "planner.files.plan.export_records": "EXPORT_RECORD_FILE export_record_of export_record_text load_digests "
    "load_export_record",
    "planner.files.plan.journals": "Journal Undertaking holds_search recover",
    "planner.files.plan.plan_document": "encode_plan plan_digest plan_document plan_files",
    "planner.files.plan.plan_schemas": "plan_schema",
    "planner.files.plan.runs": "REPLAY_FILE engine_of holds_run load_run load_stored_replay search_files",
    "planner.files.scenario.offers": (
        "listed_offer load_offer load_price_list offer_from_document price_list_from_document"
    ),
    "planner.files.scenario.scenario_documents": (
        "all_differences deciding_differences scenario_document scenario_hash scenario_keys scenario_text"
    ),
    "planner.files.scenario.scenarios": "load_scenario scenario_from_document scenario_path",
    "planner.files.tables.calibrations": "calibration_text load_calibration write_calibration write_runs_calibration",
    "planner.files.tables.measurements": (
        "STEP_ENGINES is_step_table load_left_out load_measurements load_peer load_published_measurements "
        "measured_records"
    ),
    "planner.files.tables.rates": "load_rate_curve load_rates",
    "planner.files.tables.traces.reader": "read_trace",
    "planner.files.tables.workloads": "load_workload workload_path workload_text write_workload",
}

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(__name__, _HOMES)
