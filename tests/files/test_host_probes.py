"""A node's own words: lscpu and nvidia-smi, right and malformed."""

from collections.abc import Callable
from pathlib import Path

import pytest

from planner.domain import NumaNode
from planner.files.cluster.host_probes import parse_gpu_list, parse_lscpu, read_host
from planner.files.cluster.topology_matrices import read_matrix

LSCPU = "# CPU,Core,Socket,Node\n0,0,0,0\n1,1,0,0\n2,2,1,1\n3,3,1,1\n4,0,0,0\n5,1,0,0\n6,2,1,1\n7,3,1,1\n"
TOPO = """\
\t\x1b[4mGPU0\tGPU1\tNIC0\tNIC1\tNIC2\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m
GPU0\t X \tNV18\tPIX\tSYS\tSYS\t0-1,4-5\t0\t\tN/A
GPU1\tNV18\t X \tSYS\tNODE\tSYS\t2-3,6-7\t1\t\tN/A
NIC0\tPIX\tSYS\t X \tSYS\tSYS
NIC1\tSYS\tNODE\tSYS\t X \tSYS
NIC2\tSYS\tSYS\tSYS\tSYS\t X

Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)

NIC Legend:

  NIC0: mlx5_0
  NIC1: mlx5_bond_0
  NIC2: mlx5_7
"""
GPUS = "0, GPU-a, NVIDIA H200, 143771\n1, GPU-b, NVIDIA H200, 143771\n"
Write = Callable[[str, str], Path]
Refused = Callable[..., None]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in (("lscpu.txt", LSCPU), ("topo.txt", TOPO), ("gpus.csv", GPUS)):
        (tmp_path / name).write_text(text)
    return tmp_path


def test_a_host_is_read_whole(folder: Path) -> None:
    host = read_host("n-1", folder)
    assert host.numa_nodes == (
        NumaNode(id=0, socket=0, cores=(0, 1, 4, 5)),
        NumaNode(id=1, socket=1, cores=(2, 3, 6, 7)),
    )
    assert [(gpu.index, gpu.uuid, gpu.product, gpu.numa) for gpu in host.gpus] == [
        (0, "GPU-a", "NVIDIA H200", 0),
        (1, "GPU-b", "NVIDIA H200", 1),
    ]
    assert [(nic.name, nic.numa) for nic in host.nics] == [("mlx5_0", 0), ("mlx5_bond_0", 1)]
    assert len(host.notes) == 1
    assert "mlx5_7 was left out" in host.notes[0]


def test_a_matrix_pasted_with_blanks_reads_alike() -> None:
    blanks = TOPO.replace("\t", "     ")
    assert read_matrix(blanks, file="t", numa_ids=(0, 1)) == read_matrix(TOPO, file="t", numa_ids=(0, 1))


def test_a_node_without_gpus_has_lscpu_alone(folder: Path) -> None:
    (folder / "topo.txt").unlink()
    (folder / "gpus.csv").unlink()
    host = read_host("n-1", folder)
    assert (host.gpu_count, host.gpus, host.cpus) == (0, (), 8.0)


def test_a_kernel_without_numa_has_one_node() -> None:
    assert parse_lscpu("0,0,0,\n1,1,0,\n", file="l") == (NumaNode(id=0, socket=0, cores=(0, 1)),)


def test_an_affinity_to_several_nodes_is_left_open() -> None:
    matrix = read_matrix(TOPO.replace("2-3,6-7\t1", "0-7\t0-1"), file="t", numa_ids=(0, 1))
    assert matrix.gpu_numa == ((0, 0), (1, None))


GB200 = """\
	GPU0	GPU1	GPU2	GPU3	NIC0	NIC1	CPU Affinity	NUMA Affinity	GPU NUMA ID
GPU0	 X 	NV18	NV18	NV18	SYS	SYS	0-71	0,2-17		2
GPU1	NV18	 X 	NV18	NV18	SYS	SYS	0-71	0,2-17		10
GPU2	NV18	NV18	 X 	NV18	SYS	NODE	72-143	1,18-33		18
GPU3	NV18	NV18	NV18	 X 	SYS	NODE	72-143	1,18-33		26
NIC0	SYS	SYS	SYS	SYS	 X 	SYS
NIC1	SYS	SYS	NODE	NODE	SYS	 X
"""


def test_memory_of_gpus_is_no_numa_node_of_processors() -> None:
    """Hosts with Grace: NUMA nodes 2 to 33 are GPU memory, only 0 and 1 have CPUs."""
    matrix = read_matrix(GB200, file="t", numa_ids=(0, 1))
    assert matrix.gpu_numa == ((0, 0), (1, 0), (2, 1), (3, 1))
    assert [(nic.name, nic.numa) for nic in matrix.nics] == [("NIC1", 1)]


OLD = """\
Mon Nov  4 10:00:00 2019
	GPU0	GPU1	mlx5_0	CPU Affinity
GPU0	 X 	NV2	PIX	0-1,4-5
GPU1	NV2	 X 	SOC	2-3,6-7
mlx5_0	PIX	SOC	 X
"""


def test_old_drivers_tell_cpus_alone(folder: Path) -> None:
    (folder / "topo.txt").write_text(OLD)
    host = read_host("n-1", folder)
    assert [gpu.numa for gpu in host.gpus] == [0, 1]
    assert [(nic.name, nic.numa) for nic in host.nics] == [("mlx5_0", 0)]
    assert read_matrix(OLD, file="t", numa_ids=(0, 1)).gpu_numa == ((0, None), (1, None))


ROCM = "".join(
    f"GPU[{k}]\t\t: (Topology) Numa Node: {k // 4}\nGPU[{k}]\t\t: (Topology) Numa Affinity: {k // 4}\n"
    for k in range(8)
)
PRODUCTS = "".join(f"GPU[{k}]\t\t: Card Series: \t\tAMD Instinct MI300X OAM\n" for k in range(8))


def test_rocm_smi_tells_numa_nodes_and_products(folder: Path, refused: Refused) -> None:
    (folder / "gpus.csv").unlink()
    (folder / "topo.txt").write_text(f"===== ROCm System Management Interface =====\n{PRODUCTS}{ROCM}===== End =====\n")
    host = read_host("n-1", folder)
    assert [gpu.numa for gpu in host.gpus] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert {gpu.product for gpu in host.gpus} == {"AMD Instinct MI300X OAM"}
    (folder / "topo.txt").write_text(ROCM.replace("Node: 1", "Node: -1").replace("Affinity: 1", "Affinity: -1"))
    assert [gpu.numa for gpu in read_host("n-1", folder).gpus] == [0] * 4 + [None] * 4
    (folder / "topo.txt").write_text(ROCM.replace("Node: 1", "Node: 7", 1))
    refused(lambda: read_host("n-1", folder), "topo.txt", "GPU[4]: Numa Node", "0, 1", "got 7")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("2-3,6-7\t1", "2-3,6-7\t7", ("row GPU1", "NUMA Affinity", "0, 1", "7")),
        ("2-3,6-7\t1", "2-3,6-7\tone", ("row GPU1", "NUMA Affinity", "'one'")),
        ("2-3,6-7\t1\t\tN/A", "", ("row GPU1", "NUMA Affinity", "neither")),
        ("\tNUMA Affinity", "", ("header", "GPU0")),
        ("NIC1\tSYS\tNODE\tSYS\t X \tSYS\n", "", ("row of NIC1", "'NIC2'")),
        ("NIC2\tSYS\tSYS\tSYS\tSYS\t X\n", "", ("row for each", "none for NIC2")),
        ("GPU1\tNV18\t X \tSYS\tNODE", "GPU1\tNV18\t X \tSYS\tNEAR", ("row GPU1", "'NEAR'")),
        ("NIC0\tPIX\tSYS", "NIC0\tPIX\tPIX", ("row NIC0, column GPU1", "mirror", "PIX, SYS")),
        ("GPU1\tNV18\t X ", "GPU1\tNV18\tNV18", ("row GPU1, column GPU1", "diagonal")),
        ("\tSYS\tNODE\tSYS\t2-3,6-7\t1\t\tN/A", "\tSYS", ("row GPU1", "5 cells", "3 cells")),
        ("\x1b[4mGPU0\t", "", ("line 1", "header")),
        ("NIC1\tNIC2", "NIC1\tNIC1", ("line 1", "each device once")),
    ],
)
def test_a_malformed_matrix_is_refused(refused: Refused, old: str, new: str, words: tuple[str, ...]) -> None:
    assert old in TOPO
    text = TOPO.replace(old, new, 1)
    if new == "" and "NUMA" in old and "row" not in words[0]:
        text = text.replace("CPU Affinity", "")
    refused(lambda: read_matrix(text, file="topo.txt", numa_ids=(0, 1)), "topo.txt", *words)


def test_a_text_without_a_matrix_is_refused(refused: Refused) -> None:
    for text in ("", "\n\n", "No devices were found\n"):
        refused(lambda text=text: read_matrix(text, file="topo.txt", numa_ids=(0,)), "topo.txt")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ("at least one CPU",)),
        ("0,0,0\n", ("line 1", "four whole numbers", "'0,0,0'")),
        ("# x\n0,0,0,a\n", ("line 2", "four whole numbers")),
        ("0,0,0,0\n0,0,0,0\n", ("line 2", "CPU", "0 is given twice")),
        ("0,0,0,0\n1,1,1,0\n", ("line 2", "Socket", "NUMA node 0")),
    ],
)
def test_malformed_lscpu_is_refused(refused: Refused, text: str, words: tuple[str, ...]) -> None:
    refused(lambda: parse_lscpu(text, file="lscpu.txt"), "lscpu.txt", *words)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0, GPU-a, H200\n", ("line 1", "index, uuid, name, memory.total")),
        ("0, GPU-a, H200, 1\n0, GPU-b, H200, 1\n", ("line 2", "index", "0 is given twice")),
        ("index, uuid, name, memory.total [MiB]\n", ("line 1",)),
        ("0, , H200, 1\n", ("line 1",)),
    ],
)
def test_malformed_gpu_lists_are_refused(refused: Refused, text: str, words: tuple[str, ...]) -> None:
    refused(lambda: parse_gpu_list(text, file="gpus.csv"), "gpus.csv", *words)


def test_lists_of_one_host_name_the_same_gpus(folder: Path, refused: Refused) -> None:
    (folder / "gpus.csv").write_text(GPUS.splitlines()[0] + "\n")
    refused(lambda: read_host("n-1", folder), "gpus.csv", "index", "0, 1", "got 0")
    (folder / "lscpu.txt").unlink()
    refused(lambda: read_host("n-1", folder), "lscpu.txt", "no such file")
    refused(lambda: read_host("n-1", folder / "none"), "none", "folder")
