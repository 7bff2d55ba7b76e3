"""What a node says of itself: the outputs of lscpu and nvidia-smi or rocm-smi, kept as files in one folder a node.

`lscpu.txt`: `lscpu -p=CPU,Core,Socket,Node`. `topo.txt`: `nvidia-smi topo -m`. `gpus.csv`:
`nvidia-smi --query-gpu=index,uuid,name,memory.total --format=csv,noheader,nounits`. A node without GPUs has the first
alone. On hosts with AMD GPUs `topo.txt` is `rocm-smi --showtopo --showproductname`, or `--showtoponuma`.
"""

import re
from dataclasses import replace
from pathlib import Path

from planner.domain import NumaNode
from planner.domain.node_report import NodeReport, ReportedGpu
from planner.errors import InputError
from planner.files.cluster.topology_matrices import TopologyMatrix, is_rocm, read_matrix, read_rocm
from planner.files.disk.opening import is_folder, is_there, read_text

LSCPU_FILE, TOPOLOGY_FILE, GPUS_FILE = "lscpu.txt", "topo.txt", "gpus.csv"
_ID = re.compile(r"[0-9]{1,9}")
_LSCPU = "`lscpu -p=CPU,Core,Socket,Node`"
_GPUS = "`nvidia-smi --query-gpu=index,uuid,name,memory.total --format=csv,noheader,nounits`"


def read_host(node: str, folder: Path) -> NodeReport:
    """The report of node `node` from the files of `folder`; InputError names file and line of what is malformed."""
    if not is_folder(folder):
        raise InputError(f"{folder}: must be a folder with {LSCPU_FILE}.", hint="Give --host NODE=FOLDER.")
    numa_nodes = parse_lscpu(read_text(folder / LSCPU_FILE), file=str(folder / LSCPU_FILE))
    matrix = _matrix(folder / TOPOLOGY_FILE, numa_nodes)
    gpus = _gpus(folder / GPUS_FILE, matrix)
    return NodeReport(
        node=node,
        origin=str(folder),
        gpu_count=len(gpus),
        gpus=gpus,
        numa_nodes=numa_nodes,
        nics=matrix.nics if matrix else (),
        cpus=float(sum(len(numa.cores) for numa in numa_nodes)),
        notes=matrix.notes if matrix else (),
    )


def _matrix(path: Path, numa_nodes: tuple[NumaNode, ...]) -> TopologyMatrix | None:
    if not is_there(path):
        return None
    text, numa_ids = read_text(path), tuple(numa.id for numa in numa_nodes)
    if is_rocm(text):
        return read_rocm(text, file=str(path), numa_ids=numa_ids)
    numa_of_cpu = {cpu: numa.id for numa in numa_nodes for cpu in numa.cores}
    return read_matrix(text, file=str(path), numa_ids=numa_ids, numa_of_cpu=numa_of_cpu)


def _gpus(path: Path, matrix: TopologyMatrix | None) -> tuple[ReportedGpu, ...]:
    """GPUs of the list, with NUMA nodes of the matrix; either may be missing, but they must name the same GPUs."""
    near = dict(matrix.gpu_numa) if matrix else {}
    if not is_there(path):
        products = dict(matrix.products) if matrix else {}
        return tuple(
            ReportedGpu(index=index, numa=numa, product=products.get(index, "")) for index, numa in near.items()
        )
    listed = parse_gpu_list(read_text(path), file=str(path))
    indices = [gpu.index for gpu in listed]
    if matrix and sorted(near) != sorted(indices):
        raise InputError(
            f"{path}: index must list the GPUs of {TOPOLOGY_FILE} ({_list(sorted(near))}), got {_list(indices)}.",
            hint="Take both outputs on the same node.",
        )
    return tuple(replace(gpu, numa=near.get(gpu.index)) for gpu in listed)


def _list(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers)) or "none"


def parse_lscpu(text: str, *, file: str) -> tuple[NumaNode, ...]:
    """NUMA nodes with the ids of their logical CPUs, which are the ids that a pod is pinned to."""
    cores: dict[int, list[int]] = {}
    sockets: dict[int, int] = {}
    cpus: set[int] = set()
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        cpu, socket, numa = _lscpu_row(line, f"{file}: line {number}")
        if cpu in cpus:
            raise InputError(
                f"{file}: line {number}: CPU must be given once; {cpu} is given twice.", hint="Remove one of the two."
            )
        if sockets.setdefault(numa, socket) != socket:
            raise InputError(
                f"{file}: line {number}: Socket must be the same in all of NUMA node {numa}, "
                f"got {socket} and {sockets[numa]}.",
                hint=f"Take the output of {_LSCPU} anew.",
            )
        cpus.add(cpu)
        cores.setdefault(numa, []).append(cpu)
    if not cores:
        raise InputError(f"{file}: must list at least one CPU; it lists none.", hint=f"Write it with {_LSCPU}.")
    return tuple(NumaNode(id=n, socket=sockets[n], cores=tuple(sorted(cores[n]))) for n in sorted(cores))


def _lscpu_row(line: str, where: str) -> tuple[int, int, int]:
    """CPU, socket and NUMA node of a row; a kernel without NUMA leaves the last empty, which is node 0."""
    cells = [cell.strip() for cell in line.split(",")]
    if len(cells) == 4 and cells[3] == "":
        cells[3] = "0"
    if len(cells) != 4 or not all(_ID.fullmatch(cell) for cell in cells):
        raise InputError(
            f"{where}: must be four whole numbers CPU,Core,Socket,Node, got {line.strip()!r:.80}.",
            hint=f"Write it with {_LSCPU}.",
        )
    cpu, _, socket, numa = map(int, cells)
    return cpu, socket, numa


def parse_gpu_list(text: str, *, file: str) -> tuple[ReportedGpu, ...]:
    """GPUs by index: uuid and product of each."""
    gpus: dict[int, ReportedGpu] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) != 4 or not _ID.fullmatch(cells[0]) or not all(cells[1:]):
            raise InputError(
                f"{file}: line {number}: must be index, uuid, name, memory.total, got {line.strip()!r:.80}.",
                hint=f"Write it with {_GPUS}.",
            )
        index = int(cells[0])
        if index in gpus:
            raise InputError(
                f"{file}: line {number}: index must be given once; {index} is given twice.",
                hint="Remove one of the two.",
            )
        gpus[index] = ReportedGpu(index=index, uuid=cells[1], product=cells[2])
    return tuple(gpus[index] for index in sorted(gpus))
