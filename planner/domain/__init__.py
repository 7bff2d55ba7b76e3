"""Frozen records and the protocols between stages. Knows nothing but `units` and `errors`."""

from planner.domain.assignment import Assignment, Duty
from planner.domain.gpu import GpuSpec, Price, Source
from planner.domain.layout import (
    Inventory,
    InventoryItem,
    IslandClass,
    Layout,
    ParallelConfig,
    Phase,
)
from planner.domain.model import Experts, MlaAttention, ModelSpec
from planner.domain.performance import ClassPerformance, PerformanceTable, PhasePerformance
from planner.domain.plan import Plan, PlannedIsland, Provenance, Route, SearchRecord, Trial
from planner.domain.protocols import EvaluateLayouts, Evaluation, ReportProgress, no_progress
from planner.domain.scenario import (
    AssignmentSettings,
    CostMode,
    CostSettings,
    Formulation,
    InputHash,
    RangeSettings,
    Scenario,
    SearchMethod,
    SearchSettings,
    Surrogate,
)
from planner.domain.workload import LengthProfile, LengthRange, RequestTrace, Workload

__all__ = [
    "Assignment",
    "AssignmentSettings",
    "ClassPerformance",
    "CostMode",
    "CostSettings",
    "Duty",
    "EvaluateLayouts",
    "Evaluation",
    "Experts",
    "Formulation",
    "GpuSpec",
    "InputHash",
    "Inventory",
    "InventoryItem",
    "IslandClass",
    "Layout",
    "LengthProfile",
    "LengthRange",
    "MlaAttention",
    "ModelSpec",
    "ParallelConfig",
    "PerformanceTable",
    "Phase",
    "PhasePerformance",
    "Plan",
    "PlannedIsland",
    "Price",
    "Provenance",
    "RangeSettings",
    "ReportProgress",
    "RequestTrace",
    "Route",
    "Scenario",
    "SearchMethod",
    "SearchRecord",
    "SearchSettings",
    "Source",
    "Surrogate",
    "Trial",
    "Workload",
    "no_progress",
]
