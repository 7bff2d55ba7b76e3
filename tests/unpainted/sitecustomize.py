"""Processes with this folder on their PYTHONPATH, and those that they start, write runs without pictures.

Painting is most of a short run's time, and what such processes are watched for is something else.
"""

import sys

if not any("resource_tracker" in word for word in sys.orig_argv):  # multiprocessing's own, which writes no runs
    from planner.report.page import pages

    pages.figures_of = lambda _plan: ()  # type: ignore[assignment]
