"""Every kind of object that manifests may hold: those of the targets, and those that all targets share.

A new kind is a row of its target's `kinds`, or of the table here where several targets emit it, and a schema in
`schemas/`. A schema may refer to `#/$defs/NAME` of `schemas/definitions.json`, where pods and metadata are defined.
"""

from collections.abc import Iterator

from planner.export.found import Kind
from planner.export.objects.documents import json_document
from planner.export.objects.evictions.victims import FILE as EVICTIONS_FILE
from planner.export.objects.evictions.victims import KIND as EVICTIONS_KIND
from planner.export.objects.evictions.victims import read_evictions
from planner.export.objects.names import ROUTING
from planner.export.objects.node_objects import FLEXTOPO_KIND, FLEXTOPO_VERSION, TOPOLOGY_KIND, TOPOLOGY_VERSION
from planner.export.objects.operating.autoscaling import HPA_KIND, KEDA_KIND
from planner.export.objects.operating.monitoring import API_VERSION as MONITORING_VERSION
from planner.export.objects.operating.monitoring import POD_MONITOR, RULE
from planner.export.objects.programs.scripts import ROUTER_SCRIPT_KINDS
from planner.export.routers.registry import ROUTERS
from planner.export.targets import TARGETS

ROUTING_TABLE = "routing table"


def _json(text: str) -> Iterator[object]:
    yield json_document(text)


SHARED_KINDS = (
    Kind(api_version="v1", kind="Service", schema="service.json"),
    Kind(api_version="v1", kind="ConfigMap", schema="configmap.json"),
    Kind(api_version="v1", kind="PersistentVolumeClaim", schema="persistentvolumeclaim.json"),
    Kind(api_version="policy/v1", kind="PodDisruptionBudget", schema="poddisruptionbudget.json", labelled=True),
    Kind(api_version="resource.nvidia.com/v1beta1", kind="ComputeDomain", schema="computedomain.json", labelled=True),
    Kind(api_version="batch/v1", kind="Job", schema="job.json", labelled=True),
    Kind(api_version="scheduling.k8s.io/v1", kind="PriorityClass", schema="priorityclass.json"),
    Kind(api_version="v1", kind="ServiceAccount", schema="serviceaccount.json"),
    Kind(api_version="rbac.authorization.k8s.io/v1", kind="Role", schema="role.json"),
    Kind(api_version="rbac.authorization.k8s.io/v1", kind="RoleBinding", schema="rolebinding.json"),
    *(
        Kind(api_version=version, kind=kind, schema=f"{kind.lower()}.json", inventory=True, of_node=True)
        for version, kind in ((TOPOLOGY_VERSION, TOPOLOGY_KIND), (FLEXTOPO_VERSION, FLEXTOPO_KIND))
    ),
    *(
        Kind(api_version=version, kind=kind, schema=f"{kind.lower()}.json", labelled=True)
        for version, kind in ((MONITORING_VERSION, POD_MONITOR), (MONITORING_VERSION, RULE), HPA_KIND, KEDA_KIND)
    ),
    Kind(kind=ROUTING_TABLE, schema="routing.json", files=f"{ROUTING}.json", parse=_json),
)
EVICTIONS = Kind(kind=EVICTIONS_KIND, schema="evictions.json", files=EVICTIONS_FILE, parse=read_evictions)


def known_kinds() -> tuple[Kind, ...]:
    """Every kind once, targets' first; but evictions are no launch script, which their name ends like, and neither are
    routers' programs."""
    targets = (kind for target in TARGETS.values() for kind in target.kinds)
    routers = (kind for router in ROUTERS.values() for kind in router.kinds)
    every = (EVICTIONS, *ROUTER_SCRIPT_KINDS, *routers, *targets, *SHARED_KINDS)
    rows = {(kind.api_version, kind.kind): kind for kind in every}
    return tuple(rows.values())
