"""A plan as text, tables and figures. No disk, no printing; matplotlib and pandas load when first needed."""

from typing import TYPE_CHECKING

from planner.doors import door

if TYPE_CHECKING:
    from planner.report.cluster.diagnosis_page import diagnosis_document, diagnosis_figure, diagnosis_page
    from planner.report.cluster.diagnosis_words import diagnosis_plots
    from planner.report.cluster.migration import migration_document, migration_page, migration_summary, moves_csv
    from planner.report.cluster.page import (
        cluster_document,
        cluster_figure,
        cluster_frame,
        cluster_page,
        diagnosis_frame,
        fragments_frame,
    )
    from planner.report.cluster.placement_map import placement_section
    from planner.report.cluster.repairs import repairs_section, repairs_table
    from planner.report.cluster.rhythms import rhythms_csv, rhythms_document, rhythms_page, rhythms_summary
    from planner.report.comparison.frontier import frontier_figure, frontier_frame, frontier_page, frontier_plots
    from planner.report.comparison.serving_forms import serving_figure, serving_frame, serving_page, serving_plots
    from planner.report.cost.cost_figures import (
        QUANTITIES,
        accuracy_figure,
        accuracy_frame,
        accuracy_table,
        breakdown_figure,
        configurations_figure,
        configurations_frame,
        encode_figure,
        factors_frame,
        judged_figure,
        parts_frame,
        roofline_figure,
        slices_frame,
    )
    from planner.report.kit.html.page import html_page
    from planner.report.kit.markdown import page_text
    from planner.report.observed import (
        observation_document,
        observation_file_names,
        observation_files,
        observation_frame,
        observation_page,
        observed_verdict,
    )
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
    from planner.report.plan.page import plan_page, render, summary
    from planner.report.replanning.files import change_frontier_frame, changes_frame, steps_frame
    from planner.report.replanning.plots import CHANGE_FIGURES, change_figure
    from planner.report.replanning.words import change_page
    from planner.report.replay.files import (
        replay_document,
        replay_file_names,
        replay_files,
        replay_frame,
        replay_islands_frame,
        replay_moments_frame,
        replay_sweep_frame,
    )
    from planner.report.replay.page import replay_page, sweep_page
    from planner.report.replay.plots import replay_figure, replay_plots
    from planner.report.replay.verdict import sweep_verdict, verdict

__all__ = [
    "CHANGE_FIGURES",
    "FIGURES",
    "QUANTITIES",
    "accuracy_figure",
    "accuracy_frame",
    "accuracy_table",
    "breakdown_figure",
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
    "page_text",
    "parts_frame",
    "placement_frame",
    "placement_section",
    "plan_page",
    "pools_frame",
    "render",
    "repairs_section",
    "repairs_table",
    "replay_document",
    "replay_figure",
    "replay_file_names",
    "replay_files",
    "replay_frame",
    "replay_islands_frame",
    "replay_moments_frame",
    "replay_page",
    "replay_plots",
    "replay_sweep_frame",
    "rhythms_csv",
    "rhythms_document",
    "rhythms_page",
    "rhythms_summary",
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
    "planner.report.cluster.diagnosis_page": "diagnosis_document diagnosis_figure diagnosis_page",
    "planner.report.cluster.diagnosis_words": "diagnosis_plots",
    "planner.report.cluster.migration": "migration_document migration_page migration_summary moves_csv",
    "planner.report.cluster.page": (
        "cluster_document cluster_figure cluster_frame cluster_page diagnosis_frame fragments_frame"
    ),
    "planner.report.cluster.placement_map": "placement_section",
    "planner.report.cluster.repairs": "repairs_table repairs_section",
    "planner.report.cluster.rhythms": "rhythms_csv rhythms_document rhythms_page rhythms_summary",
    "planner.report.comparison.frontier": "frontier_figure frontier_frame frontier_page frontier_plots",
    "planner.report.comparison.serving_forms": "serving_figure serving_frame serving_page serving_plots",
    "planner.report.cost.cost_figures": (
        "QUANTITIES accuracy_figure accuracy_frame accuracy_table breakdown_figure configurations_figure "
        "configurations_frame encode_figure factors_frame judged_figure parts_frame roofline_figure slices_frame"
    ),
    "planner.report.kit.html.page": "html_page",
    "planner.report.kit.markdown": "page_text",
    "planner.report.observed": (
        "observation_document observation_file_names observation_files observation_frame observation_page "
        "observed_verdict"
    ),
    "planner.report.plan.figures": "FIGURES figure figures_of",
    "planner.report.plan.frames": (
        "flows_frame islands_frame latency_frame placement_frame pools_frame routing_frame sensitivity_frame "
        "sites_frame trials_frame"
    ),
    "planner.report.plan.page": "plan_page render summary",
    "planner.report.replanning.files": "change_frontier_frame changes_frame steps_frame",
    "planner.report.replanning.plots": "CHANGE_FIGURES change_figure",
    "planner.report.replanning.words": "change_page",
    "planner.report.replay.files": (
        "replay_document replay_file_names replay_files replay_frame replay_islands_frame replay_moments_frame "
        "replay_sweep_frame"
    ),
    "planner.report.replay.page": "replay_page sweep_page",
    "planner.report.replay.plots": "replay_figure replay_plots",
    "planner.report.replay.verdict": "sweep_verdict verdict",
}

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(__name__, _HOMES)
