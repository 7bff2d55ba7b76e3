"""Frozen records and the protocols between stages. Knows nothing but `units` and `errors`."""

from planner.domain.assignment import Assignment, Duty, Flow
from planner.domain.efficiency import Calibration, Factor, Origin
from planner.domain.explanation import ConfigurationRates, PartOfStep, StepExplanation
from planner.domain.frontier import Frontier, FrontierPoint
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
from planner.domain.network import KvTraffic, NetworkSettings, kv_gb
from planner.domain.objective import Certificate, ObjectiveKind, ObjectiveSettings
from planner.domain.performance import ClassPerformance, PerformanceTable, PhasePerformance
from planner.domain.plan import Estimate, KvFlow, Plan, PlannedIsland, Provenance, Route, SearchRecord, Trial
from planner.domain.protocols import EvaluateLayouts, Evaluation, ReportProgress, no_progress
from planner.domain.scenario import (
    AssignmentSettings,
    Bound,
    CostMode,
    CostSettings,
    CostSource,
    Formulation,
    InputHash,
    RangeSettings,
    Scenario,
    SearchMethod,
    SearchSettings,
    SizeSet,
    Surrogate,
)
from planner.domain.sensitivity import GpuWorth, PhaseWorth, RangeHeadroom, Sensitivity
from planner.domain.service import RangeService, Service
from planner.domain.slo import RangeSlo, SloSettings
from planner.domain.workload import LengthProfile, LengthRange, RequestTrace, Workload

__all__ = [
    "Assignment",
    "AssignmentSettings",
    "Attention",
    "Bound",
    "Calibration",
    "CalibrationFit",
    "Certificate",
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
    "Flow",
    "Formulation",
    "Frontier",
    "FrontierPoint",
    "GpuSpec",
    "GpuWorth",
    "GroupedAttention",
    "InputHash",
    "Inventory",
    "InventoryItem",
    "IslandClass",
    "JudgedMeasurement",
    "KvFlow",
    "KvTraffic",
    "Layout",
    "LengthProfile",
    "LengthRange",
    "Measurement",
    "MlaAttention",
    "ModelSpec",
    "NetworkSettings",
    "ObjectiveKind",
    "ObjectiveSettings",
    "Origin",
    "ParallelConfig",
    "PartOfStep",
    "PerformanceTable",
    "Phase",
    "PhasePerformance",
    "PhaseWorth",
    "Plan",
    "PlannedIsland",
    "Price",
    "Provenance",
    "RangeHeadroom",
    "RangeService",
    "RangeSettings",
    "RangeSlo",
    "ReportProgress",
    "RequestTrace",
    "Route",
    "Scenario",
    "SearchMethod",
    "SearchRecord",
    "SearchSettings",
    "Sensitivity",
    "Service",
    "SizeSet",
    "SloSettings",
    "Source",
    "StepExplanation",
    "Surrogate",
    "Trial",
    "Workload",
    "kv_gb",
    "no_progress",
]
