"""Frozen records and the protocols between stages. Knows nothing but `units` and `errors`."""

from planner.domain.assignment import Assignment, Duty
from planner.domain.efficiency import Calibration, Factor, Origin
from planner.domain.explanation import ConfigurationRates, PartOfStep, StepExplanation
from planner.domain.gpu import GpuSpec, Price, Source
from planner.domain.layout import (
    Inventory,
    InventoryItem,
    IslandClass,
    Layout,
    ParallelConfig,
    Phase,
)
from planner.domain.measurement import CalibrationFit, JudgedMeasurement, Measurement
from planner.domain.model import Attention, Experts, GroupedAttention, MlaAttention, ModelSpec
from planner.domain.performance import ClassPerformance, PerformanceTable, PhasePerformance
from planner.domain.plan import Estimate, Plan, PlannedIsland, Provenance, Route, SearchRecord, Trial
from planner.domain.protocols import EvaluateLayouts, Evaluation, ReportProgress, no_progress
from planner.domain.scenario import (
    AssignmentSettings,
    CostMode,
    CostSettings,
    CostSource,
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
    "Attention",
    "Calibration",
    "CalibrationFit",
    "ClassPerformance",
    "ConfigurationRates",
    "CostMode",
    "CostSettings",
    "CostSource",
    "Duty",
    "Estimate",
    "EvaluateLayouts",
    "Evaluation",
    "Experts",
    "Factor",
    "Formulation",
    "GpuSpec",
    "GroupedAttention",
    "InputHash",
    "Inventory",
    "InventoryItem",
    "IslandClass",
    "JudgedMeasurement",
    "Layout",
    "LengthProfile",
    "LengthRange",
    "Measurement",
    "MlaAttention",
    "ModelSpec",
    "Origin",
    "ParallelConfig",
    "PartOfStep",
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
    "StepExplanation",
    "Surrogate",
    "Trial",
    "Workload",
    "no_progress",
]
