"""The `search:` section of a scenario."""

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

from planner.domain import (
    Encoding,
    InputHash,
    Inventory,
    IslandClass,
    Layout,
    SearchMethod,
    SearchSettings,
    Sizes,
    SizeSet,
    WarmStart,
)
from planner.domain.scenario import STEEPEST
from planner.errors import InputError
from planner.files.disk.documents import input_hash
from planner.files.disk.folders import PLAN_FILE
from planner.files.disk.names import canonical
from planner.files.disk.opening import is_folder
from planner.files.plan.digests import read_saved_plan
from planner.files.records import read_record, record_document
from planner.files.sections import Section, referred_from

_WORDS = tuple(word.value for word in WarmStart)
BUCKETED = SearchSettings(method=SearchMethod.AUTO, sizes=SizeSet.WHOLE_NODES)
"""Of a scenario whose plan has buckets, where it names neither."""


def read_search(
    section: Section, base: Path, inventory: Inventory, *, bucketed: bool = False, solved: bool = False
) -> tuple[SearchSettings, tuple[InputHash, ...]]:
    """The outer search, and the files of earlier runs that it begins with; their paths are relative to `base`.

    A plan of buckets (`bucketed`) has method auto and islands of whole nodes unless the section names others; what
    only the exact method answers (`solved`) has that one.

    `skew`: 5.0 (from -5 to 5) or a list [least, largest]. `warm_start`: a list of exact, relaxation and earlier runs,
    each a run folder or its plan.json, of which the best `batch_size` layouts that this inventory can form are taken;
    a list of [GPU, size, count] is a layout itself.
    """
    plain = BUCKETED if bucketed else SearchSettings()
    usual = SearchMethod.EXACT if solved and not plain.method.row.may_solve else plain.method
    method = section.choice("method", SearchMethod, default=usual)
    settings = read_record(
        SearchSettings,
        section,
        method=lambda _: method,
        encoding=lambda section: _encoding(section, method),
        skew=lambda section: _skews(section)[0],
        least_skew=lambda section: _skews(section)[1],
        sizes=lambda section: _sizes(section, plain.sizes),
        warm_start=lambda _: (),
    )
    if not (bucketed and method.row.may_solve):  # whose servers are not made of a search's islands
        _require_islands(section, settings, inventory)
    return _with_warm_start(section, settings, base, inventory)


def _encoding(section: Section, method: SearchMethod) -> Encoding:
    """The encoding; divider and direct are one, and the setting keeps its default beside them."""
    default = SearchSettings().encoding
    encoding = section.choice("encoding", Encoding, default=default)
    fixed = method.row.encoding
    if fixed is None:
        return encoding
    if "encoding" in section and encoding is not fixed:
        raise section.fault(
            "encoding",
            f"{method.value} where search.method is {method.value}",
            hint="Leave it out, or choose search.method random, sobol, grid, genetic or auto.",
        )
    return default


def _skews(section: Section) -> tuple[float, float | None]:
    """The largest skew, and the least where it is not its opposite."""
    if not section.holds_list("skew"):
        return section.number("skew", default=SearchSettings().skew, above=0, high=STEEPEST), None
    rule = f"a number, or a list of the least and the largest skew, ascending, in -{STEEPEST:g}..{STEEPEST:g}"
    pair = section.entries("skew")
    if len(pair) != 2:
        raise section.fault("skew", rule)
    ends = Section({"least": pair[0], "largest": pair[1]}, file=section.file, path=section.key_path("skew"))
    smallest, largest = (ends.number(end, low=-STEEPEST, high=STEEPEST) for end in ("least", "largest"))
    if not smallest < largest:
        raise section.refusal(
            "skew",
            f"must be {rule}, got [{smallest:g}, {largest:g}]",
            hint=f"Write [{largest:g}, {smallest:g}]." if smallest > largest else "Widen the range.",
        )
    return largest, None if smallest == -largest else smallest


def _sizes(section: Section, default: Sizes) -> Sizes:
    """A set's name, or island sizes."""
    if "sizes" not in section:
        return default
    if section.holds_list("sizes"):
        return section.integers("sizes", low=1, high=1_000_000)
    return section.choice("sizes", SizeSet)


def _require_islands(section: Section, settings: SearchSettings, inventory: Inventory) -> None:
    """Raises InputError where no layout of the encoding can have an island for each phase, but others can."""
    stocks, smallest = settings.stocks(inventory), settings.min_island_size
    largest = max(stocks, key=lambda stock: stock.largest_island)
    if not any(stock.most_islands for stock in stocks):
        whole_nodes = settings.sizes is SizeSet.WHOLE_NODES
        limit = "largest island of search.sizes whole_nodes" if whole_nodes else "largest count of the inventory"
        raise section.refusal(
            "min_island_size",
            f"must be at most the {limit}, {largest.largest_island} ({largest.gpu}), got {smallest}",
            hint="Lower search.min_island_size or add GPUs.",
            by_itself=False,
        )
    if settings.slots_too_few(inventory):
        others = [stock.largest_island for stock in stocks if stock.gpu != largest.gpu and not stock.most_islands]
        lower = f", or search.min_island_size to at most {max(others)}, for a second GPU type" if others else ""
        raise InputError(
            f"{section.file}: search.slots must be at least 2, an island for prefill and one for decode, where "
            f"search.min_island_size ({smallest}) leaves {largest.gpu} alone to form any, got {settings.slots}.",
            hint=f"Set search.slots to 2 or more{lower}.",
        )


def _with_warm_start(
    section: Section, settings: SearchSettings, base: Path, inventory: Inventory
) -> tuple[SearchSettings, tuple[InputHash, ...]]:
    if "warm_start" not in section:
        return settings, ()
    if not section.holds_list("warm_start"):
        raise section.fault("warm_start", f"a list of {', '.join(_WORDS)} and paths of earlier runs")
    entries = section.entries("warm_start")
    if entries and settings.method.row.solves:
        raise section.fault("warm_start", "left out where search.method is exact", hint="It begins with nothing.")
    words: dict[WarmStart, None] = {}
    layouts: dict[Layout, None] = {}
    inputs: list[InputHash] = []
    for index, entry in enumerate(entries):
        place = Section({f"warm_start[{index}]": entry}, file=section.file, path=section.path)
        if isinstance(entry, list | tuple):
            layouts[_layout(place, f"warm_start[{index}]", settings, inventory)] = None
        elif entry in _WORDS:
            words[WarmStart(entry)] = None
        else:
            path = _plan_file(place, f"warm_start[{index}]", base)
            with referred_from(place, f"warm_start[{index}]"):
                layouts.update(dict.fromkeys(_earlier(path, settings, inventory)))
                inputs.append(input_hash(path))
    return replace(settings, warm_start=tuple(words), earlier=tuple(layouts)), tuple(inputs)


def _plan_file(place: Section, key: str, base: Path) -> Path:
    path = base / place.text(key)
    return path / PLAN_FILE if is_folder(path) else path


def _layout(place: Section, key: str, settings: SearchSettings, inventory: Inventory) -> Layout:
    """A layout that stands in the scenario itself."""
    layout = _layout_of(place, key, [item.gpu.name for item in inventory.items])
    if not _fits(layout, settings, inventory):
        raise place.fault(key, "a layout of the inventory, in islands of at least search.min_island_size")
    return layout


def _layout_of(place: Section, key: str, names: Collection[str] = ()) -> Layout:
    """The layout of rows whose GPU types are `names`, in whatever case."""
    rule = "a list of [GPU, size, count], the last two whole numbers of at least 1"
    if not place.holds_list(key):
        raise place.fault(key, rule)
    counts: dict[IslandClass, int] = {}
    for row in place.entries(key):
        if not isinstance(row, list | tuple) or len(row) != 3 or not isinstance(row[0], str):
            raise place.fault(key, rule)
        if any(isinstance(n, bool) or not isinstance(n, int) or n < 1 for n in row[1:]):
            raise place.fault(key, rule)
        island = IslandClass(gpu=canonical(row[0], names), size=int(row[1]))
        counts[island] = counts.get(island, 0) + int(row[2])
    return Layout(counts=tuple(sorted(counts.items())))


def _fits(layout: Layout, settings: SearchSettings, inventory: Inventory) -> bool:
    free_gpus = {item.gpu.name: item.count for item in inventory.items}
    for island, count in layout.counts:
        free_gpus[island.gpu] = free_gpus.get(island.gpu, 0) - island.size * count
    return min(free_gpus.values()) >= 0 and all(i.size >= settings.min_island_size for i, _ in layout.counts)


def _earlier(path: Path, settings: SearchSettings, inventory: Inventory) -> list[Layout]:
    """The best layouts of an earlier run that this inventory can form, at most a round of them.

    Only the trials are read, so that a run of any scenario and any version will do; an edited one will not.
    """
    trials = read_saved_plan(path).section("search").sections("trials")
    rated: dict[Layout, float] = {}
    for trial in trials:
        rate, layout = trial.number("throughput_rps", low=0), _layout_of(trial, "layout")
        if rate > 0 and _fits(layout, settings, inventory):
            rated[layout] = max(rate, rated.get(layout, 0.0))
    if not rated:
        raise InputError(
            f"{path}: search.trials: must hold a layout that serves its workload and that this inventory can form in "
            f"islands of at least {settings.min_island_size} GPUs; none of {len(trials)} is one.",
            hint="Leave the run out of search.warm_start, or choose one on the same GPU types.",
        )
    return sorted(rated, key=lambda layout: -rated[layout])[: settings.batch_size]


def search_document(settings: SearchSettings) -> dict[str, object]:
    """The section that `read_search` reads back as the same settings; earlier runs' layouts stand in it in full."""
    return record_document(
        settings,
        encoding=settings.encoded.value,
        skew=settings.skew if settings.least_skew is None else [settings.least_skew, settings.skew],
        sizes=settings.sizes.value if isinstance(settings.sizes, SizeSet) else list(settings.sizes),
        warm_start=[*(word.value for word in settings.warm_start), *map(_rows, settings.earlier)],
    )


def _rows(layout: Layout) -> list[list[Any]]:
    return [[island.gpu, island.size, count] for island, count in layout.counts]
