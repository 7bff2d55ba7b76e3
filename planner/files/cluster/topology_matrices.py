"""The text of `nvidia-smi topo -m`: how GPUs and network cards are connected, and the NUMA node of each GPU.

| word | path between two devices |
|---|---|
| X | itself |
| NV# | # NVLinks |
| PIX, PXB | one PCIe bridge, several |
| PHB | through a host bridge |
| NODE | between host bridges of one NUMA node |
| SYS | between NUMA nodes; SOC in old drivers |

Hosts with Grace count GPU memory as NUMA nodes of its own, so that an affinity may be `0,2-17`: the node with CPUs
among them counts. Old drivers have no NUMA Affinity: the CPUs' node counts. Source: nvidia-smi's manual, section topo;
rocm-smi --showtoponuma (ROCm issue 4740).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from planner.domain import Nic
from planner.errors import InputError

_WORDS = re.compile(r"X|SYS|SOC|NODE|PHB|PXB|PIX|NV[0-9]+")
_NEARNESS = ("PIX", "PXB", "PHB", "NODE")
_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
_DEVICE = re.compile(r"[A-Za-z][A-Za-z0-9_.:-]*")
_ROCM = re.compile(r"GPU\[([0-9]{1,3})\]\s*:\s*(?:\(Topology\) )?(Numa Node|Numa Affinity|Card [Ss]eries):\s*(.+?)\s*")
_GPU = re.compile(r"GPU([0-9]{1,3})")
_LEGEND = re.compile(r"\s+(NIC[0-9]+):\s+(\S+)\s*")
_NUMA = re.compile(r"[0-9]{1,4}")
_HINT = "Take the text of `nvidia-smi topo -m` whole, with its header line."


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyMatrix:
    """The NUMA node of each GPU index (None: several, or not told), the network cards that have a GPU near, and the
    product of each GPU, where the text names it.
    """

    gpu_numa: tuple[tuple[int, int | None], ...]
    nics: tuple[Nic, ...]
    notes: tuple[str, ...] = ()
    products: tuple[tuple[int, str], ...] = ()


def is_rocm(text: str) -> bool:
    """Whether a text is rocm-smi's, not nvidia-smi's."""
    return any(_ROCM.fullmatch(line) for line in text.splitlines())


def read_rocm(text: str, *, file: str, numa_ids: tuple[int, ...]) -> TopologyMatrix:
    """The text of `rocm-smi --showtopo` or `--showtoponuma`, perhaps with `--showproductname`; no cards are in it."""
    near: dict[int, int | None] = {}
    products: dict[int, str] = {}
    for match in filter(None, map(_ROCM.fullmatch, text.splitlines())):
        index, word, value = int(match[1]), match[2], match[3]
        if word.startswith("Card"):
            products[index] = value
        elif word == "Numa Node" or near.get(index) is None:
            near[index] = _rocm_numa(index, value, file, numa_ids)
    missing = sorted(products.keys() - near.keys()) if near else []
    if missing:
        raise _fault(file, f"GPU[{missing[0]}]", "have a Numa Node, as the others", "none")
    indices = sorted(near or products)
    return TopologyMatrix(
        gpu_numa=tuple((index, near.get(index)) for index in indices), nics=(), products=tuple(sorted(products.items()))
    )


def _rocm_numa(index: int, value: str, file: str, numa_ids: tuple[int, ...]) -> int | None:
    """rocm-smi writes -1 where the firmware tells no node."""
    if value == "-1":
        return numa_ids[0] if len(numa_ids) == 1 else None
    if not _NUMA.fullmatch(value) or int(value) not in numa_ids:
        raise _fault(file, f"GPU[{index}]: Numa Node", f"be one of {', '.join(map(str, numa_ids))}, as lscpu", value)
    return int(value)


def read_matrix(
    text: str, *, file: str, numa_ids: tuple[int, ...], numa_of_cpu: Mapping[int, int] | None = None
) -> TopologyMatrix:
    """The matrix, checked whole: every device has a row of known words, and A to B is as B to A. `numa_of_cpu`: where
    affinities name several nodes or none, the one of their CPUs counts.
    """
    lines = _ESCAPES.sub("", text).splitlines()
    devices, header, has_numa = _header(lines, file)
    rows = _rows(lines[header:], devices, file, header)
    _require_symmetry(rows, devices, file)
    numas = {
        name: _numa(name, affinities, file, numa_ids, numa_of_cpu or {}, has_numa=has_numa)
        for name, (_, affinities) in rows.items()
        if _GPU.fullmatch(name) is not None
    }
    nics, notes = _nics(rows, devices, numas, _names(lines))
    return TopologyMatrix(
        gpu_numa=tuple((int(name.removeprefix("GPU")), numa) for name, numa in numas.items()), nics=nics, notes=notes
    )


def _fault(file: str, place: str, rule: str, shown: str) -> InputError:
    return InputError(f"{file}: {place} must {rule}, got {shown}.", hint=_HINT)


def _header(lines: list[str], file: str) -> tuple[list[str], int, bool]:
    """Devices of the header in order, the number of lines up to it, and whether it has the NUMA affinities."""
    rows = [(number, line) for number, line in enumerate(lines, start=1) if line.strip()]
    for number, line in rows:
        words = line.split()
        if "CPU" not in words or words[0] != "GPU0":
            continue  # whatever was printed before
        devices = words[: words.index("CPU")]
        strange = [device for device in devices if not _DEVICE.fullmatch(device)]
        if strange or len(set(devices)) < len(devices):
            raise _fault(file, f"line {number}", "name each device once", ", ".join(strange or devices)[:80])
        return devices, number, "NUMA" in words
    if rows:
        number, line = rows[0]
        raise _fault(file, f"line {number}", "be the header: GPU0 … CPU Affinity, NUMA Affinity", repr(line[:60]))
    raise _fault(file, "the text", "hold a matrix of devices", "nothing")


def _rows(lines: list[str], devices: list[str], file: str, start: int) -> dict[str, tuple[list[str], list[str]]]:
    """Cells of each device's row, and what follows them."""
    rows: dict[str, tuple[list[str], list[str]]] = {}
    for number, line in enumerate(lines, start=start + 1):
        words = line.split()
        if not words or words[0] == "Legend:":
            break
        name, cells, affinities = words[0], words[1 : 1 + len(devices)], words[1 + len(devices) :]
        if len(rows) == len(devices) or name != devices[len(rows)]:
            expected = devices[len(rows)] if len(rows) < len(devices) else "the end of the matrix"
            raise _fault(file, f"line {number}", f"be the row of {expected}", repr(name))
        wrong = [cell for cell in cells if not _WORDS.fullmatch(cell)]
        if wrong or len(cells) < len(devices):
            raise _fault(
                file,
                f"line {number}, row {name}",
                f"have {len(devices)} cells of X, NV#, PIX, PXB, PHB, NODE or SYS",
                repr(wrong[0]) if wrong else f"{len(cells)} cells",
            )
        rows[name] = (cells, affinities)
    missing = devices[len(rows) :]
    if missing:
        raise _fault(file, "the matrix", f"have a row for each of {', '.join(devices)}", f"none for {missing[0]}")
    return rows


def _require_symmetry(rows: dict[str, tuple[list[str], list[str]]], devices: list[str], file: str) -> None:
    for i, device in enumerate(devices):
        for j, other in enumerate(devices[: i + 1]):
            here, present = rows[device][0][j], rows[other][0][i]
            if here != present or (here == "X") != (i == j):
                raise _fault(
                    file,
                    f"row {device}, column {other}",
                    "be as its mirror, X on the diagonal alone",
                    f"{here}, {present}",
                )


def _numa(
    name: str,
    affinities: list[str],
    file: str,
    numa_ids: tuple[int, ...],
    numa_of_cpu: Mapping[int, int],
    *,
    has_numa: bool,
) -> int | None:
    """NUMA affinity of a GPU's row (`CPU Affinity`, `NUMA Affinity`, …); None where it names several nodes."""
    if not has_numa:
        return _numa_of_cpus(affinities[0] if affinities else "", numa_of_cpu)
    if len(affinities) < 2:
        raise _fault(file, f"row {name}", "have CPU Affinity and NUMA Affinity", " ".join(affinities) or "neither")
    word = affinities[1]
    if word == "N/A" and len(numa_ids) == 1:
        return numa_ids[0]
    if not _NUMA.fullmatch(word):
        if word == "N/A":
            return _numa_of_cpus(affinities[0], numa_of_cpu)
        if re.fullmatch(r"[0-9]{1,4}([-,][0-9]{1,4})+", word):
            present = _expanded(word) & set(numa_ids)
            return present.pop() if len(present) == 1 else _numa_of_cpus(affinities[0], numa_of_cpu)
        raise _fault(file, f"row {name}: NUMA Affinity", "be a NUMA id", repr(word))
    if int(word) not in numa_ids:
        raise _fault(file, f"row {name}: NUMA Affinity", f"be one of {', '.join(map(str, numa_ids))}, as lscpu", word)
    return int(word)


def _numa_of_cpus(word: str, numa_of_cpu: Mapping[int, int]) -> int | None:
    """The one node of all CPUs of an affinity such as 0-47,96-143; None where they are of several, or not told."""
    if not re.fullmatch(r"[0-9]{1,5}([-,][0-9]{1,5})*", word):
        return None
    numas = {numa_of_cpu.get(cpu) for cpu in _expanded(word)}
    return numas.pop() if len(numas) == 1 else None


def _expanded(word: str) -> set[int]:
    ends = [part.partition("-") for part in word.split(",")]
    return {number for low, _, high in ends for number in range(int(low), int(high or low) + 1)}


def _names(lines: list[str]) -> dict[str, str]:
    """What the legend calls the cards: NIC0 is mlx5_0."""
    matches = [_LEGEND.fullmatch(line) for line in lines]
    return {match[1]: match[2] for match in matches if match}


def _nics(
    rows: dict[str, tuple[list[str], list[str]]],
    devices: list[str],
    numas: dict[str, int | None],
    names: dict[str, str],
) -> tuple[tuple[Nic, ...], tuple[str, ...]]:
    """Cards in the NUMA node of the GPUs nearest to them; one that is near to none is left out, with a note."""
    nics: list[Nic] = []
    notes: list[str] = []
    for device in devices:
        if device in numas:
            continue
        cells = dict(zip(devices, rows[device][0], strict=True))
        near = [{numas[gpu] for gpu in numas if cells[gpu] == word and numas[gpu] is not None} for word in _NEARNESS]
        nearest = next((numa_ids for numa_ids in near if numa_ids), set())
        numa = next(iter(nearest)) if len(nearest) == 1 else None
        if numa is None:
            notes.append(
                f"network card {names.get(device, device)} was left out: it is near to no GPU of one NUMA node"
            )
        else:
            nics.append(Nic(name=names.get(device, device), numa=numa))
    return tuple(nics), tuple(notes)
