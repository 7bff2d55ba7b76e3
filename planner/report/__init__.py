"""A plan as text, tables and figures. No disk, no printing; matplotlib and pandas load when first needed."""

from typing import TYPE_CHECKING

from planner.doors import door

if TYPE_CHECKING:
    from planner.report.cluster.diagnosis.page import diagnosis_document, diagnosis_figure, diagnosis_page
    from planner.report.cluster.diagnosis.plots import diagnosis_plots
    from planner.report.cluster.frames import cluster_frame, diagnosis_frame, fragments_frame
    from planner.report.cluster.migration import migration_document, migration_page, migration_summary, moves_csv
    from planner.report.cluster.page import cluster_document, cluster_figure, cluster_page
    from planner.report.cluster.placement import placement_page
    from planner.report.comparison.frontier import frontier_figure, frontier_frame, frontier_page
    from planner.report.comparison.price_plots import frontier_plots, serving_figure, serving_plots
    from planner.report.comparison.serving_forms import serving_frame, serving_page
    from planner.report.cost.cost_figures import (
        QUANTITIES,
        accuracy_figure,
        breakdown_figure,
        configurations_figure,
        encode_figure,
        judged_figure,
        roofline_figure,
    )
    from planner.report.cost.cost_frames import (
        accuracy_frame,
        accuracy_table,
        configurations_frame,
        factors_frame,
        parts_frame,
        slices_frame,
    )
    from planner.report.kit.frames import Frame
    from planner.report.kit.html.page import html_page
    from planner.report.observed.page import (
        observation_document,
        observation_file_names,
        observation_files,
        observation_frame,
        observation_page,
    )
    from planner.report.observed.tables import observed_verdict
    from planner.report.page.changes import Earlier
    from planner.report.page.pages import render
    from planner.report.page.plan_page import plan_page
    from planner.report.plan.figures import FIGURES, figure, figures_of
    from planner.report.plan.frames import (
        flows_frame,
        islands_frame,
        latency_frame,
        placement_frame,
        pools_frame,
        routing_frame,
        sensitivity_frame,
        sites_frame,
        trials_frame,
    )
    from planner.report.plan.summary import summary
    from planner.report.replanning.document import change_document
    from planner.report.replanning.figures import CHANGE_FIGURES, change_figure
    from planner.report.replanning.frames import change_frontier_frame, changes_frame, steps_frame
    from planner.report.replanning.words import change_page
    from planner.report.replay.document import replay_document
    from planner.report.replay.figures import replay_figure, replay_figures_of
    from planner.report.replay.files import replay_file_names, replay_files
    from planner.report.replay.frames import (
        replay_frame,
        replay_islands_frame,
        replay_moments_frame,
        replay_sweep_frame,
    )
    from planner.report.replay.page import replay_page, sweep_page
    from planner.report.replay.plots import replay_plots
    from planner.report.replay.verdict import sweep_verdict, verdict

__all__ = [
    "CHANGE_FIGURES",
    "FIGURES",
    "QUANTITIES",
    "Earlier",
    "Frame",
    "accuracy_figure",
    "accuracy_frame",
    "accuracy_table",
    "breakdown_figure",
    "change_document",
    "change_figure",
    "change_frontier_frame",
    "change_page",
    "changes_frame",
    "cluster_document",
    "cluster_figure",
    "cluster_frame",
    "cluster_page",
    "configurations_figure",
    "configurations_frame",
    "diagnosis_document",
    "diagnosis_figure",
    "diagnosis_frame",
    "diagnosis_page",
    "diagnosis_plots",
    "encode_figure",
    "factors_frame",
    "figure",
    "figures_of",
    "flows_frame",
    "fragments_frame",
    "frontier_figure",
    "frontier_frame",
    "frontier_page",
    "frontier_plots",
    "html_page",
    "islands_frame",
    "judged_figure",
    "latency_frame",
    "migration_document",
    "migration_page",
    "migration_summary",
    "moves_csv",
    "observation_document",
    "observation_file_names",
    "observation_files",
    "observation_frame",
    "observation_page",
    "observed_verdict",
    "parts_frame",
    "placement_frame",
    "placement_page",
    "plan_page",
    "pools_frame",
    "render",
    "replay_document",
    "replay_figure",
    "replay_figures_of",
    "replay_file_names",
    "replay_files",
    "replay_frame",
    "replay_islands_frame",
    "replay_moments_frame",
    "replay_page",
    "replay_plots",
    "replay_sweep_frame",
    "roofline_figure",
    "routing_frame",
    "sensitivity_frame",
    "serving_figure",
    "serving_frame",
    "serving_page",
    "serving_plots",
    "sites_frame",
    "slices_frame",
    "steps_frame",
    "summary",
    "sweep_page",
    "sweep_verdict",
    "trials_frame",
    "verdict",
]

_HOMES = {
    "planner.report.cluster.diagnosis.page": "diagnosis_document diagnosis_figure diagnosis_page",
    "planner.report.cluster.diagnosis.plots": "diagnosis_plots",
    "planner.report.cluster.frames": "cluster_frame diagnosis_frame fragments_frame",
    "planner.report.cluster.migration": "migration_document migration_page migration_summary moves_csv",
    "planner.report.cluster.page": "cluster_document cluster_figure cluster_page",
    "planner.report.cluster.placement": "placement_page",
    "planner.report.comparison.frontier": "frontier_figure frontier_frame frontier_page",
    "planner.report.comparison.price_plots": "frontier_plots serving_figure serving_plots",
    "planner.report.comparison.serving_forms": "serving_frame serving_page",
    "planner.report.cost.cost_figures": (
        "QUANTITIES accuracy_figure breakdown_figure configurations_figure encode_figure judged_figure roofline_figure"
    ),
    "planner.report.cost.cost_frames": (
        "accuracy_frame accuracy_table configurations_frame factors_frame parts_frame slices_frame"
    ),
    "planner.report.kit.frames": "Frame",
    "planner.report.kit.html.page": "html_page",
    "planner.report.observed.page": (
        "observation_document observation_file_names observation_files observation_frame observation_page"
    ),
    "planner.report.observed.tables": "observed_verdict",
    "planner.report.page.changes": "Earlier",
    "planner.report.page.pages": "render",
    "planner.report.page.plan_page": "plan_page",
    "planner.report.plan.figures": "FIGURES figure figures_of",
    "planner.report.plan.frames": (
        "flows_frame islands_frame latency_frame placement_frame pools_frame routing_frame sensitivity_frame "
        "sites_frame trials_frame"
    ),
    "planner.report.plan.summary": "summary",
    "planner.report.replanning.document": "change_document",
    "planner.report.replanning.figures": "CHANGE_FIGURES change_figure",
    "planner.report.replanning.frames": "change_frontier_frame changes_frame steps_frame",
    "planner.report.replanning.words": "change_page",
    "planner.report.replay.document": "replay_document",
    "planner.report.replay.figures": "replay_figure replay_figures_of",
    "planner.report.replay.files": "replay_file_names replay_files",
    "planner.report.replay.frames": "replay_frame replay_islands_frame replay_moments_frame replay_sweep_frame",
    "planner.report.replay.page": "replay_page sweep_page",
    "planner.report.replay.plots": "replay_plots",
    "planner.report.replay.verdict": "sweep_verdict verdict",
}

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(__name__, _HOMES)
