"""Export: a plan in, deployment manifests out. The door is `render`; it knows no disk.

From Python `planner.export(plan, "manifests", target="lws", engine="vllm")` writes them into a folder, `plan` being a
plan or the path of a run folder: as `plan.export` does.
"""

from planner.doors import make_callable
from planner.export.checking import (
    Compared,
    CrdSchemas,
    FoundManifests,
    check_manifests,
    compare,
    find_faults,
    read_crds,
    read_manifests,
    tells_fleet,
)
from planner.export.engines.benchmark_commands import BenchmarkCommands, benchmark_commands, require_tools
from planner.export.engines.dialects import ENGINES, priced_engine, read_server
from planner.export.found import Manifest
from planner.export.manifests import (
    check_deployable,
    image_files,
    render,
    router_behaviour,
    router_processes,
    slowest_start_s,
)
from planner.export.objects.evictions import FILE as EVICTIONS_FILE
from planner.export.objects.evictions import eviction_script
from planner.export.objects.migrations import FOLDER as MIGRATION_FOLDER
from planner.export.objects.migrations import SCRIPT as MIGRATION_SCRIPT
from planner.export.objects.migrations import migration_files
from planner.export.objects.names import one_line, plan_slug, slug, weights_location
from planner.export.objects.node_objects import node_files, node_pods, placed_nodes
from planner.export.objects.operating.gates import gate_queries
from planner.export.objects.operating.monitoring import island_labels, observe_queries, plan_label
from planner.export.objects.operating.traffic_queries import LOAD as LOAD_QUANTITIES
from planner.export.objects.operating.traffic_queries import TRAFFIC_ENGINES, traffic_metrics, traffic_queries
from planner.export.options import ExportOptions
from planner.export.reading import read_plan, summarize_plan
from planner.export.routers.registry import NO_ROUTER, ROUTERS, chosen_router
from planner.export.seams import Entry, Step
from planner.export.summary import UNROUTED
from planner.export.targets import TARGETS
from planner.export.targets.dynamo.components import GRID_CELLS
from planner.export.targets.fleets.entries import HEADER as SERVICE_HEADER
from planner.export.targets.fleets.entries import ServiceRoute, entry_of, service_routes
from planner.export.targets.fleets.front import front_config, front_process
from planner.export.targets.fleets.queues import class_name, place_of, priority_files, queue_files, queue_name
from planner.export.targets.fleets.shared import fleet_front_files, fleet_label
from planner.export.targets.fleets.together import check_together

__all__ = [
    "ENGINES",
    "EVICTIONS_FILE",
    "GRID_CELLS",
    "LOAD_QUANTITIES",
    "MIGRATION_FOLDER",
    "MIGRATION_SCRIPT",
    "NO_ROUTER",
    "ROUTERS",
    "SERVICE_HEADER",
    "TARGETS",
    "TRAFFIC_ENGINES",
    "UNROUTED",
    "BenchmarkCommands",
    "Compared",
    "CrdSchemas",
    "Entry",
    "ExportOptions",
    "FoundManifests",
    "Manifest",
    "ServiceRoute",
    "Step",
    "benchmark_commands",
    "check_deployable",
    "check_manifests",
    "check_together",
    "chosen_router",
    "class_name",
    "compare",
    "entry_of",
    "eviction_script",
    "find_faults",
    "fleet_front_files",
    "fleet_label",
    "front_config",
    "front_process",
    "gate_queries",
    "image_files",
    "island_labels",
    "migration_files",
    "node_files",
    "node_pods",
    "observe_queries",
    "one_line",
    "place_of",
    "placed_nodes",
    "plan_label",
    "plan_slug",
    "priced_engine",
    "priority_files",
    "queue_files",
    "queue_name",
    "read_crds",
    "read_manifests",
    "read_plan",
    "read_server",
    "render",
    "require_tools",
    "router_behaviour",
    "router_processes",
    "service_routes",
    "slowest_start_s",
    "slug",
    "summarize_plan",
    "tells_fleet",
    "traffic_metrics",
    "traffic_queries",
    "weights_location",
]

make_callable(__name__, "planner.api.planning")
