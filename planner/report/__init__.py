"""A plan as text, tables and figures. No disk, no printing; matplotlib and pandas load when first needed."""

from planner.report.figures import FIGURES, figure
from planner.report.frames import Frame, islands_frame, routing_frame, trials_frame
from planner.report.pages import render
from planner.report.summary import summary

__all__ = [
    "FIGURES",
    "Frame",
    "figure",
    "islands_frame",
    "render",
    "routing_frame",
    "summary",
    "trials_frame",
]
