"""Nodes, pods and orders of openb traces: read as they are, refused with file, row and column."""

from pathlib import Path

import pytest

from planner.domain import TraceNode, TracePod
from planner.errors import InputError
from planner.studies.policies.inputs import read_order, read_trace_nodes, read_trace_pods

NODES = "sn,cpu_milli,memory_mib,gpu,model\n"
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,creation_time,deletion_time\n"


def written(folder: Path, text: str) -> Path:
    path = folder / "trace.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_nodes(tmp_path: Path) -> None:
    found = read_trace_nodes(written(tmp_path, NODES + "a,64000,262144,2,P100\nb,32000,1024,0,\n"))
    assert found[0] == TraceNode(name="a", cpu_milli=64000, memory_mib=262144, gpus=2, gpu_model="P100")
    assert (found[1].gpus, found[1].gpu_model) == (0, "")


def test_pods(tmp_path: Path) -> None:
    rows = "a,12000,16384,1,460,T4|P100,LS,5,9\nb,1000,1,0,300,,BE,,\nc,1,1,8,1000,,LS,0,0\nd,1,1,1,1500,,LS,,\n"
    a, b, c, d = read_trace_pods(written(tmp_path, PODS + rows), ["T4", "P100"])
    assert a == TracePod(
        name="a",
        cpu_milli=12000,
        memory_mib=16384,
        gpus=1,
        gpu_milli=460,
        gpu_spec="T4|P100",
        creation_s=5,
        deletion_s=9,
    )
    assert (b.gpus, b.gpu_milli, c.total_gpu_milli, d.gpu_milli) == (0, 0, 8000, 1000)


def test_orders(tmp_path: Path) -> None:
    assert read_order(written(tmp_path, "pod\nb\na\nb\n"), "pod") == ("b", "a", "b")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "must hold a header and at least one row; it is empty"),
        (NODES, "only a header came"),
        ("sn,cpu_milli,gpu\na,1,1\n", "missing: memory_mib, model"),
        (NODES + "a,1,1,1,T4\na,1,1,1,T4\n", "row 2, column sn must be a name of its own, got 'a', as in row 1"),
        (NODES + "a,-1,1,1,T4\n", "row 1, column cpu_milli must be a whole number, at least 1"),
        (NODES + "a,1,1,1,\n", "row 1, column model must name the type of its GPUs"),
        (NODES + "a,1,1,1\n", "row 1 must have 5 cells"),
        (NODES + "a,1,1,99,T4\n", "column gpu must be a whole number, at least 0 and at most 16"),
        (NODES + ",1,1,1,T4\n", "column sn must be a name"),
        ("sn,sn,cpu_milli,memory_mib,gpu,model\na,a,1,1,1,T4\n", "twice: sn"),
    ],
)
def test_nodes_refused(tmp_path: Path, text: str, fault: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(InputError, match=fault) as caught:
        read_trace_nodes(path)
    assert str(path) in str(caught.value)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        ("a,1,1,-1,0,,,,", "column num_gpu must be a whole number"),
        ("a,1,1,2,500,,,,", "column gpu_milli must be 1000 where several GPUs are asked for, got '500'"),
        ("a,1,1,1,0,,,,", "column gpu_milli must be above 0 where num_gpu is"),
        ("a,1,1,0.5,500,,,,", "column num_gpu must be a whole number"),
        ("a,1,1,1,500,T4|B9,,,", r"column gpu_spec must name GPU models of the nodes \(T4\)"),
        ("a,1,nan,1,500,,,,", "column memory_mib must be a whole number"),
        ("a,1,1,1,500,,,9,5", r"column deletion_time must not be before creation_time \(9\), got '5'"),
        ("a,1,1,1,500,,,x,", "column creation_time must be seconds"),
    ],
)
def test_pods_refused(tmp_path: Path, row: str, fault: str) -> None:
    with pytest.raises(InputError, match=fault):
        read_trace_pods(written(tmp_path, PODS + row + "\n"), ["T4"])
