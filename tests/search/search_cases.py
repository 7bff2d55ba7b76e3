"""Inventories for the search, and judges of layouts that need no solver."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from planner.domain import (
    Encoding,
    Evaluation,
    GpuSpec,
    Inventory,
    InventoryItem,
    IslandClass,
    Judged,
    Layout,
    Proposed,
    SearchMethod,
    SearchSettings,
    SizeSet,
    Surrogate,
)

OF_COUNTS = (Encoding.DIVIDER, Encoding.DIRECT)
"""Encodings that look at counts alone; test_graph_cuts has the one that looks at a cluster."""

_GPU = GpuSpec(
    name="made up",
    vendor="none",
    sms=100,
    sms_for_communication=10,
    fp16_tflops=500.0,
    fp8_tflops=1000.0,
    fp4_tflops=0.0,
    memory_gb=100.0,
    memory_gb_s=4000.0,
    reference_memory_gb_s=4000.0,
    nvlink_gb_s=400.0,
    nic_gb_s=50.0,
    gpus_per_nvlink_domain=8,
    gpus_per_host=8,
    idle_w=100.0,
    max_w=700.0,
)


def inventory(counts: Mapping[str, int]) -> Inventory:
    """GPUs by name and count, in hosts of 8, or of 4 in racks of 72; the search asks for no other figure."""
    return Inventory(
        items=tuple(
            InventoryItem(gpu=_gpu(name), count=count, price_usd_per_gpu_hour=1.0) for name, count in counts.items()
        )
    )


def _gpu(name: str) -> GpuSpec:
    racked = name.endswith("NVL72")
    return replace(_GPU, name=name, gpus_per_host=4 if racked else 8, gpus_per_nvlink_domain=72 if racked else 8)


def search(
    method: SearchMethod = SearchMethod.RANDOM,
    *,
    encoding: Encoding = Encoding.DIVIDER,
    surrogate: Surrogate = Surrogate.GP,
    iterations: int = 2,
    batch_size: int = 4,
    min_island_size: int = 2,
    slots: int = 4,
    seed: int = 0,
    sizes: SizeSet = SizeSet.ALL,
) -> SearchSettings:
    """Few rounds; CPU-seconds are not told, so that equal searches have equal records."""
    return SearchSettings(
        method=method,
        encoding=encoding,
        timings=False,
        surrogate=surrogate,
        iterations=iterations,
        batch_size=batch_size,
        min_island_size=min_island_size,
        slots=slots,
        seed=seed,
        sizes=sizes,
    )


def used(layout: Layout) -> dict[str, int]:
    """GPUs of each type that a layout holds."""
    held: dict[str, int] = {}
    for island, count in layout.counts:
        held[island.gpu] = held.get(island.gpu, 0) + island.size * count
    return held


def sizes(layout: Layout, gpu: str) -> list[int]:
    """The island sizes of one type, ascending."""
    return [island.size for island, count in layout.counts if island.gpu == gpu for _ in range(count)]


def islands(*pairs: tuple[str, int]) -> Layout:
    """A layout of (type, size) pairs."""
    return Layout.of(IslandClass(gpu=gpu, size=size) for gpu, size in pairs)


class Bowl:
    """Judges a layout by how near each type is to a wished number of islands and share of its largest island.

    The best rate is 100 requests/s; layouts seen are kept in order.
    """

    def __init__(self, wishes: Mapping[str, tuple[int, float]]) -> None:
        self.wishes = wishes
        self.seen: list[Layout] = []

    def rate(self, layout: Layout) -> float:
        """Requests/s of one layout."""
        distance = 0.0
        for gpu, (count, share) in self.wishes.items():
            own = sizes(layout, gpu)
            largest = max(own, default=0) / max(1, sum(own))
            distance += ((len(own) - count) / count) ** 2 + 4 * (largest - share) ** 2
        return 100 / (1 + distance)

    def __call__(self, layouts: Sequence[Layout], /) -> list[Evaluation]:
        """All of a batch, in order."""
        self.seen += layouts
        return [Evaluation(layout=one, throughput_rps=self.rate(one), assignment=None) for one in layouts]


def serve_nothing(layouts: Sequence[Layout], /) -> list[Evaluation]:
    """A judge that no layout pleases."""
    return [Evaluation(layout=one, throughput_rps=0.0, assignment=None, error="made up") for one in layouts]


class Remembering:
    """A journal in memory. `upto`: what it knows after so many entries, as a killed process leaves it."""

    def __init__(self, entries: Sequence[Proposed | Judged] = ()) -> None:
        self.entries: list[Proposed | Judged] = list(entries)

    def upto(self, count: int) -> "Remembering":
        """The first `count` entries."""
        return Remembering(self.entries[:count])

    def proposed(self, iteration: int) -> Proposed | None:
        """A round's layouts."""
        return next((e for e in self.entries if isinstance(e, Proposed) and e.iteration == iteration), None)

    def judged(self, index: int) -> Judged | None:
        """A trial."""
        return next((e for e in self.entries if isinstance(e, Judged) and e.trial.index == index), None)

    def keep_proposed(self, proposed: Proposed) -> None:
        """Each round once."""
        assert self.proposed(proposed.iteration) is None
        self.entries.append(proposed)

    def keep_judged(self, judged: Judged) -> None:
        """Each trial once."""
        assert self.judged(judged.trial.index) is None
        self.entries.append(judged)

    def keep_experiment(self, document: bytes) -> None:
        """Not needed to go on."""
