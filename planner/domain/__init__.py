"""Frozen records and the protocols between stages. Knows nothing but `units` and `errors`."""

from planner.domain.assignment import (
    Assignment,
    Duty,
    EvaluateLayouts,
    Evaluation,
    Flow,
    ReportProgress,
    named_duties,
    no_progress,
)
from planner.domain.benchmark import (
    Accuracy,
    BenchmarkRun,
    JudgedFigure,
    Load,
    MeasuringAdvice,
    Metric,
    NamedRun,
    Pool,
    Precision,
    ProposedRun,
    SliceError,
)
from planner.domain.cluster import (
    CORE_GROUP_SIZE,
    MOST_GPUS_OF_A_NODE,
    SWITCH_LEVELS,
    Cluster,
    ClusterNode,
    DisruptionBudget,
    FlexTopo,
    Nic,
    NodeGpu,
    NumaNode,
    Pod,
    PodClass,
    Taint,
    TopologyEdge,
    Vertex,
)
from planner.domain.deployed import DeployedIsland, DeployedPlan, DeployedRoute, PodField
from planner.domain.efficiency import (
    Band,
    Calibration,
    CalibrationFit,
    Factor,
    JudgedMeasurement,
    MeasuredBand,
    Measurement,
    Origin,
    RateBand,
    RateComparison,
    Relation,
)
from planner.domain.engine import EngineProfile
from planner.domain.explanations import GpuWorth, PhaseWorth, RangeHeadroom, Sensitivity
from planner.domain.fragments import (
    WHOLE_GPU,
    Fragmentation,
    FragmentCause,
    Semantics,
    TraceNode,
    TracePod,
    TypicalPod,
    allows,
)
from planner.domain.frontier import Frontier, FrontierPoint
from planner.domain.gpu import ENGINE_MEMORY_SHARE, ChipPower, GpuSpec, PowerFormula, PowerTable, Price, Source
from planner.domain.layout import (
    PHASES,
    Inventory,
    InventoryItem,
    IslandClass,
    Layout,
    ParallelConfig,
    Phase,
    Reach,
    Role,
    halves_of,
)
from planner.domain.model import (
    Attention,
    DenseFfn,
    Experts,
    GroupedAttention,
    LayerGroup,
    MlaAttention,
)
from planner.domain.model.spec import ModelSpec
from planner.domain.objective import (
    Certificate,
    CurrentIsland,
    DrawnFrom,
    Goal,
    ObjectiveKind,
    ObjectiveSettings,
    Pick,
)
from planner.domain.performance import (
    ClassPerformance,
    ConfigurationRates,
    PartOfStep,
    PerformanceTable,
    PhasePerformance,
    StepExplanation,
)
from planner.domain.placement import (
    Alignment,
    ClusterState,
    EvictionRule,
    FragmentShare,
    IslandForm,
    IslandSite,
    PlacedPart,
    Placement,
    PlacementDemand,
    PlacementSettings,
    PlacementWeights,
    Qos,
    ScorePart,
    Shortfall,
    Victim,
)
from planner.domain.plan import SPARE_NOTE, Estimate, KvFlow, Plan, PlannedIsland, Provenance, Route, context_tokens
from planner.domain.preemption import Preemptor, VictimMethod, VictimRule, VictimSet, VictimSettings
from planner.domain.scenario import (
    AssignmentSettings,
    Bound,
    Candidates,
    Encoding,
    Formulation,
    InputHash,
    Question,
    RangeSettings,
    Scenario,
    SearchMethod,
    SearchSettings,
    Surrogate,
    WarmStart,
)
from planner.domain.search_record import (
    Forgetful,
    Judged,
    Proposal,
    Proposed,
    Round,
    SearchJournal,
    SearchRecord,
    Trial,
)
from planner.domain.service import RangeService, Service
from planner.domain.serving.caches.network import KvTraffic, NetworkSettings, kv_gb
from planner.domain.serving.cost import CostMode, CostSettings, CostSource
from planner.domain.serving.deploy import DeploySettings
from planner.domain.serving.forms import (
    PURE_FORMS,
    FormChange,
    FormComparison,
    FormPoint,
    better_form,
)
from planner.domain.serving.routers import (
    Counted,
    Endpoints,
    Freed,
    RouterBehaviour,
    RouterLayer,
    Rule,
    behaviour_of,
    one_layer,
)
from planner.domain.serving.routing import (
    FormChoice,
    LengthMeasure,
    PoolGrid,
    RouterGrid,
    RouterPolicy,
    RoutingForm,
    RoutingSettings,
    ServingForm,
    SurvivalSettings,
    worth_of,
)
from planner.domain.serving.server import (
    BucketLatency,
    BucketPlan,
    BucketPool,
    KvTransfer,
    LoadPoint,
    NodeLoss,
    PoolDrafts,
    ServerConfig,
    SimplerPlan,
)
from planner.domain.slo import RangeSlo, SloScope, SloSettings
from planner.domain.soundness import contradictions, require_buckets, require_pools, require_sound
from planner.domain.stocks import Sizes, SizeSet, Stock, admits
from planner.domain.workload import (
    BLOCK_TOKENS,
    CachedPrefixes,
    CacheRate,
    CountDispersion,
    KvCacheRate,
    LengthProfile,
    LengthRange,
    PrefixAffinity,
    PrefixReuse,
    PromptBlocks,
    RangeHits,
    RequestTrace,
    WeightSpread,
    Workload,
)
