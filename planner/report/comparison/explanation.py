"""Why a plan, a pool or an island is what it is, in sentences that each rest on a figure."""

from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

from planner.domain.explanations import (
    Alternative,
    IslandExplanation,
    PlanExplanation,
    PoolExplanation,
    RivalIsland,
    RivalServer,
    TypeUse,
    WhatIf,
)
from planner.domain.serving.server import ServerConfig, SimplerPlan
from planner.report.buckets.view import span_label
from planner.report.kit.markdown import escaped, listed
from planner.report.kit.quantities import counted, percent, rate, signed_range, significant, whole
from planner.report.kit.tables import Column, counts, fields, table_of
from planner.report.kit.tree import DataTable, Page, paragraphs, section

SAME = 5e-4
NOTHING = "nothing serves"
Explanation = PlanExplanation | PoolExplanation | IslandExplanation


def explanation_page(explanation: Explanation) -> Page:
    """The explanation of a plan, a pool or an island."""
    if isinstance(explanation, PlanExplanation):
        page = _plan_page(explanation)
    elif isinstance(explanation, PoolExplanation):
        page = _pool_page(explanation)
    else:
        page = _island_page(explanation)
    notes = section("notes", "Notes", *listed(list(map(escaped, explanation.notes))))
    return replace(page, sections=(*page.sections, notes))


def explanation_document(explanation: Explanation) -> dict[str, Any]:
    """The explanation as plain data."""
    return asdict(explanation)


def _plan_page(plan: PlanExplanation) -> Page:
    slow, fast = sorted((plan.prefill_rps, plan.decode_rps))
    phase = "prefill" if plan.prefill_rps <= plan.decode_rps else "decode"
    lines = [f"**{phase.capitalize()} is the bottleneck**: alone it serves {rate(slow)}, the other phase {rate(fast)}."]
    if plan.bound is not None:
        lines.append(f"No plan of this form is better than {significant(plan.bound, 4)} {plan.unit}.")
    if plan.survival_cost_rps is not None:
        lines.append(f"Surviving the loss that is asked for costs {rate(plan.survival_cost_rps)} requests/s.")
    bounds = (
        "Bounds are relaxations, worked out now: servers divisible, over all buckets. Below the plan's rate, the "
        "alternative loses at least the difference; above it, it gains at most that."
    )
    return Page(
        title=f"Why {plan.plan} serves {rate(plan.rate_rps)} requests/s",
        lead=listed([*lines, *_worths(plan)]),
        sections=(
            section(
                *("alternatives", "What its alternatives lose"),
                *([_alternatives(plan), *paragraphs(bounds)] if plan.alternatives else []),
            ),
            section("cuts", "Buckets and kinds of servers", _cuts(plan.cuts, plan.rate_rps)),
        ),
    )


def _worths(plan: PlanExplanation) -> Iterator[str]:
    if plan.sensitivity is None:
        return
    for worth in plan.sensitivity.gpus:
        less = ""
        if worth.less_node_rps is not None and worth.less_node_most_rps is not None:
            less = f"; {worth.gpus_lost} fewer by {signed_range(worth.less_node_rps, worth.less_node_most_rps)}"
        yield (
            f"{escaped(worth.gpu)}: {worth.gpus_per_node} more change the rate by "
            f"{signed_range(worth.more_node_rps, worth.more_node_most_rps)} requests/s{less}."
        )
    for phase in plan.sensitivity.phases:
        yield (
            f"{phase.phase.value.capitalize()} takes {percent(min(1.0, phase.worth_share))} of the fleet's worth; 10 % "
            f"faster, it raises the best possible rate by {rate(phase.faster_rps)} requests/s (relaxation)."
        )


def _alternatives(plan: PlanExplanation) -> DataTable:
    columns: tuple[Column[Alternative], ...] = (
        *fields("Instead=name"),
        Column("At most (requests/s)", lambda row: NOTHING if row.bound_rps is None else rate(row.bound_rps), str),
        Column("Solved for", lambda row: row.reached_rps, rate),
        Column("Against the plan", lambda row: _verdict(row, plan.rate_rps)),
    )
    return table_of(columns, plan.alternatives).block()


def _verdict(row: Alternative, rate_rps: float) -> str:
    if row.bound_rps is None:
        return "loses everything"
    change = row.bound_rps / rate_rps - 1
    if change < 0:
        return f"loses at least {_share(-change)}"
    return f"gains at most {_share(change)}"


def _share(share: float) -> str:
    return f"{100 * share:.1f} %"


def _change(change: float) -> str:
    return "same" if abs(change) < SAME else f"{100 * change:+.1f} %"


def _cuts(cuts: tuple[SimplerPlan, ...], rate_rps: float) -> DataTable:
    chosen = next((row for row in cuts if row.chosen), None)
    base = chosen.rate_rps if chosen else rate_rps
    columns: tuple[Column[SimplerPlan], ...] = (
        Column(
            "Buckets, prefill + decode",
            lambda row: f"{row.prefill_buckets} + {row.decode_buckets}{' (the plan)' * row.chosen}",
        ),
        *counts("Kinds=kinds", "Pools=pools"),
        Column("requests/s", lambda row: row.rate_rps, rate),
        Column("Against the plan", lambda row: "" if row.chosen else _change(row.rate_rps / base - 1), right=True),
    )
    return table_of(columns, cuts).block()


def _server_words(server: ServerConfig) -> str:
    parallel = server.parallel
    stages = f" PP{parallel.pp}" if parallel.pp > 1 else ""
    size = f"{server.tokens_per_step:,} tokens a step" if server.tokens_per_step else f"batch {server.batch_size}"
    shape = f"{counted(parallel.devices, 'GPU')} TP{parallel.tp} DP{parallel.dp}{stages}"
    return f"{shape}, {size}{', overlapped' * server.overlapped}"


def _pool_page(pool: PoolExplanation) -> Page:
    lead = (
        f"{counted(pool.servers, 'server')} of {_server_words(pool.server)}, on {escaped(pool.gpu)}, for the "
        f"{pool.phase.value} of prompts of {span_label(pool.start, pool.end)} tokens: {rate(pool.load_rps)} of them a "
        f"second at the capacity of {rate(pool.plan_rps)} requests/s."
    )
    changes = [_what_if(row, pool) for row in pool.what_ifs] or ["Nothing was worked out: see the note."]
    types = (*listed(list(_type_sentences(pool))), table_of(_TYPE, pool.types).block())
    return Page(
        title=f"Why {pool.island} is what it is",
        verdict=lead,
        sections=(
            section("type", "Why this GPU type", *types),
            section("configuration", "Why this configuration", *listed(list(_rival_sentences(pool))), _rivals(pool)),
            section("count", "Why so many", *listed(list(_count_sentences(pool)))),
            section("cuts", "Why these buckets", _cuts(pool.cuts, pool.plan_rps)),
            section("changes", "What would change it", *listed(changes)),
        ),
    )


def _type_sentences(pool: PoolExplanation) -> Iterator[str]:
    chosen = next(row for row in pool.types if row.gpu == pool.gpu)
    yield _use_sentence(chosen)
    for row in pool.types:
        if row.gpu != pool.gpu:
            yield _use_sentence(row)


def _use_sentence(row: TypeUse) -> str:
    if row.server is None:
        return f"{escaped(row.gpu)} serves nothing of it."
    here = f"One {escaped(row.gpu)} is worth {rate(row.worth_rps)} requests/s of the whole plan here"
    if row.elsewhere is None:
        return f"{here} (shadow prices)."
    other = f"{rate(row.elsewhere_rps)} in {row.elsewhere.value}"
    if abs(row.worth_rps - row.elsewhere_rps) <= SAME * max(row.worth_rps, row.elsewhere_rps):
        return f"{here} and as much in {row.elsewhere.value}: it is split between them (shadow prices)."
    better = "so it belongs here" if row.worth_rps > row.elsewhere_rps else f"so {row.elsewhere.value} is its place"
    return f"{here} and {other}, {better} (shadow prices)."


_TYPE: tuple[Column[TypeUse], ...] = (
    *fields("GPU=gpu"),
    *counts("GPUs here=gpus"),
    Column("requests/s a GPU", lambda row: row.rate_per_gpu_rps, rate),
    Column("per USD/hour", lambda row: row.rate_per_usd, rate),
    Column("best server", lambda row: row.server and _server_words(row.server)),
)


def _rival_sentences(pool: PoolExplanation) -> Iterator[str]:
    chosen = next((row for row in pool.rivals if row.chosen), None)
    others = [row for row in pool.rivals if not row.chosen]
    if chosen is None:
        yield "Its configuration serves nothing by today's rates: the plan was made by another version."
        return
    yield f"What limits it is {chosen.limit.value}."
    for row in others[:1]:
        yield _against(row, chosen)
    excluded = pool.excluded
    if excluded.refused:
        yield f"The engine refuses {counted(excluded.refused, 'shape')}: {escaped('; '.join(excluded.rules))}."
    if excluded.without_memory:
        yield f"{counted(excluded.without_memory, 'configuration')} do not fit into memory."
    if excluded.beyond_levels:
        yield f"{counted(excluded.beyond_levels, 'configuration')} fit, but miss the service levels."


def _against(row: RivalServer, chosen: RivalServer) -> str:
    change = row.serves_rps / chosen.serves_rps - 1
    words = f"The runner-up, {row.servers} × {_server_words(row.server)}, would serve {_share(abs(change))}"
    if abs(change) < SAME:
        return f"{words.removesuffix(_share(abs(change)))}as much on these GPUs ({row.limit.value})."
    if change <= 0:
        return f"{words} less on these GPUs ({row.limit.value})."
    after_loss = f"after the loss it leaves {rate(row.left_rps)} requests/s, the chosen one {rate(chosen.left_rps)}"
    return f"{words} more on these GPUs; {after_loss}."


def _rivals(pool: PoolExplanation) -> DataTable:
    chosen = next((row.serves_rps for row in pool.rivals if row.chosen), 0.0)
    columns: tuple[Column[RivalServer], ...] = (
        Column(
            "On the pool's GPUs",
            lambda row: f"{row.servers} × {_server_words(row.server)}{' (the pool)' * row.chosen}",
        ),
        Column("requests/s", lambda row: row.serves_rps, rate),
        Column(
            "Against it",
            lambda row: _change(row.serves_rps / chosen - 1) if chosen and not row.chosen else "",
            right=True,
        ),
        Column("After a loss", lambda row: row.left_rps, rate),
        *counts("Idle GPUs=idle_gpus"),
        *fields("Limit=limit"),
    )
    return table_of(columns, pool.rivals).block()


def _count_sentences(pool: PoolExplanation) -> Iterator[str]:
    count = pool.count
    gpu = escaped(pool.gpu)
    if count.type_gpus < count.offered_gpus:
        yield f"The objective rents {whole(count.type_gpus)} of the {whole(count.offered_gpus)} {gpu} on offer."
    elif count.type_idle:
        yield f"{whole(count.type_idle)} of the {whole(count.type_gpus)} {escaped(pool.gpu)} are in no pool."
    else:
        yield f"All {whole(count.type_gpus)} {escaped(pool.gpu)} are in pools: the inventory sets the number."
    lost = count.one_less_rps / pool.plan_rps - 1
    if count.one_less_rps <= 0:
        yield "Nothing else serves its bucket: without it there is no plan."
    elif lost < -SAME:
        yield f"With one server less the plan would serve {rate(count.one_less_rps)} requests/s, {_share(-lost)} less."
    else:
        yield "One server less would serve as much: another phase or bucket is slower."
    if count.survive_rps and count.one_less_left_rps < count.survive_rps:
        yield (
            f"With one server less {rate(count.one_less_left_rps)} requests/s would be left after the loss to survive, "
            f"of which {rate(count.survive_rps)} are asked for: that keeps the server."
        )


def _what_if(row: WhatIf, pool: PoolExplanation) -> str:
    basis = "planned again" if row.planned else "an estimate, by the rates of single servers"
    served = "" if row.rate_rps is None else f", {rate(row.rate_rps)} requests/s in all"
    at = f"`{row.key}={row.value:g}`"
    if not row.changes:
        return f"{at}: the same kinds of servers, {escaped(row.becomes)}{served} ({basis})."
    between = "" if row.same_at is None else f"; the change lies between {row.same_at:g} and {row.value:g}"
    return f"{at}: {pool.phase.value} becomes {escaped(row.becomes)}{served} ({basis}{between})."


def _island_page(island: IslandExplanation) -> Page:
    lengths = ", ".join(f"{length:,} ({percent(share)})" for length, share in island.lengths[:4])
    more = f" and {counted(len(island.lengths) - 4, 'further range')}" if len(island.lengths) > 4 else ""
    busy = percent(min(1.0, island.utilisation))
    rates = (
        "Rates are those of `planner cost configurations` at the middles of the ranges, averaged by time per request."
    )
    without = ""
    if island.one_less_rps is not None and island.bound_rps:
        less = 1 - island.one_less_rps / island.bound_rps
        without = (
            f"Without its {island.size} GPUs no layout serves more than {rate(island.one_less_rps)} requests/s, "
            f"{_share(max(0.0, less))} below the bound of {rate(island.bound_rps)} with them (relaxation)."
        )
    rivals, others = (table_of(_ISLAND, rows).block() for rows in (island.rivals, island.others))
    return Page(
        title=f"Why {island.island} is what it is",
        verdict=f"An island of {island.size} {escaped(island.gpu)}, {island.phase.value}, busy {busy} of its time. "
        f"Middles of the ranges that it serves, with their share: {lengths} tokens{more}.",
        sections=(
            section("configuration", "Why this configuration", *listed(list(_island_sentences(island))), rivals),
            section("type", "Why this GPU type", others, *paragraphs(rates)),
            section("changes", "What would change it", *paragraphs(without)),
        ),
    )


def _island_sentences(island: IslandExplanation) -> Iterator[str]:
    chosen = next((row for row in island.rivals if row.chosen), None)
    others = [row for row in island.rivals if not row.chosen]
    if chosen is not None and others:
        change = others[0].rate_rps / chosen.rate_rps - 1
        more = "more" if change > 0 else "less"
        yield f"The runner-up, {_island_words(others[0])}, would serve {_share(abs(change))} {more}."
    elif chosen is not None:
        yield f"It is the only configuration of {island.size} {escaped(island.gpu)} that serves."
    if island.unfit:
        yield f"{counted(island.unfit, 'configuration')} of so many GPUs do not fit into memory."


def _island_words(row: RivalIsland) -> str:
    stages = f" PP{row.pp}" if row.pp > 1 else ""
    return f"{row.replicas} × TP{row.tp} DP{row.dp}{stages}"


_ISLAND: tuple[Column[RivalIsland], ...] = (
    *fields("GPU=gpu"),
    Column("Configuration", lambda row: f"{_island_words(row)}{' (the island)' * row.chosen}"),
    Column("requests/s", lambda row: row.rate_rps, rate),
    Column("a GPU", lambda row: row.per_gpu_rps, rate),
    Column("per USD/hour", lambda row: row.per_usd, rate),
)
