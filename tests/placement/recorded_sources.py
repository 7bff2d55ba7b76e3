"""What nodes, agents and kubectl print, built after the published formats."""

import json
from pathlib import Path
from typing import Any

import yaml

EXPORTER = "node-exporter-mbj8l"


def agent_flextopo(node: str = "10.0.0.40", exporter: str = EXPORTER, **users: str) -> dict[str, Any]:
    """An object as the published agent writes it: 64 cores, 8 core groups, 8 GPUs, 8 NUMA nodes, 2 sockets.

    `users`: pod by vertex, such as gpu_0 or core_24; all other cores are the exporter's, as it is pinned to none.
    """
    vertices = [{"id": f"socket-{s}", "type": "Socket", "attributes": {}} for s in range(2)]
    edges = []
    for n in range(8):
        vertices.append({"id": f"numa-{n}", "type": "NUMANode", "attributes": {}})
        group = f"coregroup-{n}-{n}"
        vertices.append({"id": group, "type": "CoreGroup", "attributes": {"groupIndex": n, "nodeID": n}})
        edges.append({"source": f"socket-{n // 4}", "target": f"numa-{n}", "type": "contains"})
        edges.append({"source": f"numa-{n}", "target": group, "type": "contains"})
        user = users.get(f"gpu_{n}")
        use = {"status": "used", "usedBy": user} if user else {"status": "free"}
        model = {"uuid": f"GPU-{node}-u{n}", "name": "NVIDIA GeForce RTX 4090", "memoryTotal": 24564}
        vertices.append({"id": f"gpu-{n}", "type": "GPU", "attributes": model | use})
        for core in range(8 * n, 8 * n + 8):
            used = {"status": "used", "usedBy": users.get(f"core_{core}", exporter)}
            vertices.append({"id": f"core-{core}", "type": "CPUCore", "attributes": used})
            edges.append({"source": group, "target": f"core-{core}", "type": "contains"})
    return {
        "apiVersion": "flextopo.baichuan-inc.com/v1alpha1",
        "kind": "FlexTopo",
        "metadata": {"name": node, "generation": 1},
        "spec": {"edges": edges, "nodes": vertices},
    }


def with_nearby(document: dict[str, Any], numas: list[int]) -> dict[str, Any]:
    """The same object with the edges that the agent leaves out."""
    document["spec"]["edges"] += [
        {"source": f"gpu-{gpu}", "target": f"numa-{numa}", "type": "nearby"} for gpu, numa in enumerate(numas)
    ]
    return document


def kubectl_node(name: str, gpus: int = 8, **changes: Any) -> dict[str, Any]:
    labels = {"kubernetes.io/hostname": name, "rack": "r1", "nvidia.com/gpu.product": "NVIDIA-H200"}
    amounts = {"cpu": "64", "memory": "1000Gi", "nvidia.com/gpu": str(gpus)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels | changes.get("labels", {})},
        "spec": changes.get("spec", {}),
        "status": {"capacity": amounts, "allocatable": amounts | changes.get("allocatable", {})},
    }


def kubectl_pod(name: str, node: str, *, gpus: int = 0, cpu: str = "1", **changes: Any) -> dict[str, Any]:
    asked = {"cpu": cpu, "memory": "64Gi"} | ({"nvidia.com/gpu": str(gpus)} if gpus else {})
    spec = {"nodeName": node, "priority": 0, "containers": [{"name": "main", "resources": {"requests": asked}}]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "serving", **changes.get("metadata", {})},
        "spec": spec | changes.get("spec", {}),
        "status": {"phase": changes.get("phase", "Running")},
    }


def written_list(path: Path, *items: dict[str, Any]) -> Path:
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(items)}))
    return path


def written_yaml(path: Path, *documents: dict[str, Any]) -> Path:
    path.write_text("---\n".join(yaml.safe_dump(document) for document in documents))
    return path


def topo_text(numas: list[int], *, nics: int = 0, tabs: bool = True) -> str:
    """`nvidia-smi topo -m`: GPUs on NVLink, card i under the bridge of GPU i."""
    gpus = len(numas)
    names = [f"GPU{i}" for i in range(gpus)] + [f"NIC{i}" for i in range(nics)]
    places = [*numas, *numas[:nics]]

    def cell(i: int, j: int) -> str:
        if i == j:
            return " X "
        if i < gpus and j < gpus:
            return "NV18"
        if abs(i - j) == gpus:
            return "PIX"
        return "NODE" if places[i] == places[j] else "SYS"

    end = ["CPU Affinity", "NUMA Affinity", "GPU NUMA ID"]
    rows = [["", *names, *end]]
    for i, name in enumerate(names):
        tail = [f"{32 * places[i]}-{32 * places[i] + 31}", str(places[i]), "", "N/A"] if i < gpus else []
        rows.append([name, *(cell(i, j) for j in range(len(names))), *tail])
    lines = [("\t" if tabs else "    ").join(row) for row in rows]
    lines[0] = lines[0].replace("GPU0", "\x1b[4mGPU0", 1) + "\x1b[0m"
    legend = ["", "Legend:", "", "  X    = Self", "", "NIC Legend:", ""]
    return "\n".join([*lines, *legend, *(f"  NIC{i}: mlx5_{i}" for i in range(nics))]) + "\n"


def lscpu_text(numas: int = 4, cores: int = 16, numas_of_socket: int = 2) -> str:
    """Cores without threads, `cores` a NUMA node."""
    rows = [f"{c},{c},{c // cores // numas_of_socket},{c // cores}" for c in range(numas * cores)]
    return "# The following is the parsable format\n# CPU,Core,Socket,Node\n" + "\n".join(rows) + "\n"


def gpus_text(node: str, count: int, product: str = "NVIDIA H200") -> str:
    return "".join(f"{i}, GPU-{node}-p{i}, {product}, 143771\n" for i in range(count))


def host_folder(folder: Path, node: str, numas: list[int], *, nics: int = 0) -> Path:
    folder.mkdir()
    (folder / "lscpu.txt").write_text(lscpu_text())
    (folder / "topo.txt").write_text(topo_text(numas, nics=nics))
    (folder / "gpus.csv").write_text(gpus_text(node, len(numas)))
    return folder


def nrt(node: str, gpus: list[int], *, parents: list[int] | None = None) -> dict[str, Any]:
    """A NodeResourceTopology with a zone for each entry of `gpus`, which holds so many."""

    def resource(name: str, amount: object) -> dict[str, Any]:
        return {"name": name, "capacity": amount, "allocatable": amount, "available": amount}

    zones: list[dict[str, Any]] = []
    for n, held in enumerate(gpus):
        resources = [resource("cpu", 16), resource("memory", "250Gi"), resource("nvidia.com/gpu", str(held))]
        costs = [{"name": f"node-{other}", "value": 10 if other == n else 20} for other in range(len(gpus))]
        zone = {"name": f"node-{n}", "type": "Node", "costs": costs, "resources": resources}
        zones.append(zone | ({"parent": f"socket-{parents[n]}"} if parents else {}))
    zones += [{"name": f"socket-{s}", "type": "Socket"} for s in sorted(set(parents or []))]
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": node},
        "zones": zones,
    }
