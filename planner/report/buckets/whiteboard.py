"""The plan as a person would draw it on a whiteboard: buckets of prompts, and behind each its pools of servers."""

from collections.abc import Sequence

from planner.domain import BucketPool, Phase, Plan
from planner.report.buckets.view import BucketView, bucket_plan, own_buckets
from planner.report.kit.quantities import percent

_ARROWS = {"single": "──▶", "first": "┬─▶", "middle": "├─▶", "last": "└─▶"}
_HANDOVER = ("   │  KV caches", "   ▼")


def whiteboard(plan: Plan) -> str:
    """The drawing as a block of plain text: prefill above, decode below, then what does both; a line a pool."""
    columns = _widths(plan)
    prefill, decode, mixed = (
        [line for bucket in own_buckets(plan, phase) for line in _bucket_lines(plan, bucket, columns)]
        for phase in Phase
    )
    lines = ["prefill, by tokens of the prompt", *prefill, *_HANDOVER, "decode, by tokens of the prompt", *decode]
    if mixed:
        both = ["prefill and decode on the same GPUs, by tokens of the prompt", *mixed]
        lines = [*lines, "", *both] if prefill else both
    return "\n".join(["```text", *(line.rstrip() for line in lines), "```"])


def _widths(plan: Plan) -> list[int]:
    """Widths of the columns: label of the bucket, and the cells of a pool."""
    labels = [_label(bucket) for phase in Phase for bucket in own_buckets(plan, phase)]
    cells = [_cells(plan, pool) for pool in bucket_plan(plan).pools]
    return [max(map(len, labels)), *(max(map(len, column)) for column in zip(*cells, strict=True))]


def _bucket_lines(plan: Plan, bucket: BucketView, widths: Sequence[int]) -> list[str]:
    label, last = _label(bucket), len(bucket.pools) - 1
    lines = []
    for place, pool in enumerate(bucket.pools):
        kind = "single" if last == 0 else "first" if place == 0 else "last" if place == last else "middle"
        text = "  ".join(cell.ljust(width) for cell, width in zip(_cells(plan, pool), widths[1:], strict=True))
        lines.append(f"  {(label if place == 0 else '').ljust(widths[0])} {_ARROWS[kind]} {text}")
    return lines


def _label(bucket: BucketView) -> str:
    return f"{bucket.label} ({percent(bucket.probability)})"


def _cells(plan: Plan, pool: BucketPool) -> tuple[str, ...]:
    """`8 servers of 8 H200`, degrees, what a step holds, share of the bucket."""
    server = pool.server
    noun = "server" if pool.count == 1 else "servers"
    tokens, batch = f"{server.tokens_per_step:,} tokens a step", f"batch {server.batch_size}"
    held = {Phase.PREFILL: tokens, Phase.DECODE: batch, Phase.MIXED: f"{tokens}, {batch}"}[pool.phase]
    share = percent(pool.share)
    return (
        f"{pool.count:>2} {noun} of {server.parallel.devices} {' '.join(pool.gpu.replace('`', '').split())}",
        degrees(plan, pool),
        f"{held}{', overlapped' if server.overlapped else ''}",
        f"takes {share}" if pool.share < 1 - 1e-9 else "takes all",
    )


def degrees(plan: Plan, pool: BucketPool) -> str:
    """`TP1 DP8`, with PP where some pool of the plan has stages."""
    parallel = pool.server.parallel
    staged = any(other.server.parallel.pp > 1 for other in bucket_plan(plan).pools)
    return f"TP{parallel.tp} DP{parallel.dp}{f' PP{parallel.pp}' if staged else ''}"
