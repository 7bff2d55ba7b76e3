"""A plan as text, tables and figures. No disk, no printing; matplotlib and pandas load when first needed."""

from planner.report.cluster import cluster_document, cluster_figure, cluster_page
from planner.report.cost_figures import (
    QUANTITIES,
    accuracy_figure,
    breakdown_figure,
    configurations_figure,
    encode_figure,
    roofline_figure,
)
from planner.report.cost_frames import accuracy_frame, configurations_frame, factors_frame, parts_frame
from planner.report.figures import FIGURES, figure, figures_of
from planner.report.frames import Frame, flows_frame, islands_frame, placement_frame, routing_frame, trials_frame
from planner.report.frontier import frontier_figure, frontier_frame, frontier_page
from planner.report.pages import render
from planner.report.placement import placement_page
from planner.report.policies import metrics_frame, policies_page
from planner.report.policy_figures import PAPER_FIGURES, POLICY_FIGURES, paper_figures, policy_figure, policy_figures
from planner.report.summary import summary

__all__ = [
    "FIGURES",
    "PAPER_FIGURES",
    "POLICY_FIGURES",
    "QUANTITIES",
    "Frame",
    "accuracy_figure",
    "accuracy_frame",
    "breakdown_figure",
    "cluster_document",
    "cluster_figure",
    "cluster_page",
    "configurations_figure",
    "configurations_frame",
    "encode_figure",
    "factors_frame",
    "figure",
    "figures_of",
    "flows_frame",
    "frontier_figure",
    "frontier_frame",
    "frontier_page",
    "islands_frame",
    "metrics_frame",
    "paper_figures",
    "parts_frame",
    "placement_frame",
    "placement_page",
    "policies_page",
    "policy_figure",
    "policy_figures",
    "render",
    "roofline_figure",
    "routing_frame",
    "summary",
    "trials_frame",
]
