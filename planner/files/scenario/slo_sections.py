"""The `slo:` section of a scenario: what its keys must hold together."""

from planner.domain import RangeSlo, SloSettings
from planner.domain.slo import LONGEST_PROMPT
from planner.files.records import read_record
from planner.files.sections import Section


def read_slo(section: Section) -> SloSettings:
    """Bounds on TTFT and TPOT. InputError where a bound is no positive number or ranges are empty."""
    settings = read_record(SloSettings, section, ranges=_ranges)
    percentile = settings.percentile
    if percentile is not None and percentile < 1:  # nobody bounds the fastest hundredth
        raise section.fault(
            "percentile",
            "in percent, at least 1",
            hint=f"Did you mean {100 * percentile:g}? Write that for P{100 * percentile:g}.",
        )
    if percentile is not None and not settings.bounds_anything:
        raise section.fault("percentile", "given with a bound, ttft_ms or tpot_ms", hint="Add a bound.")
    bounds_ttft = settings.ttft_ms is not None or any(limits.ttft_ms is not None for limits in settings.ranges)
    if settings.ttft_ms_per_1k_tokens and not bounds_ttft:
        raise section.fault(
            "ttft_ms_per_1k_tokens", "given with a bound on TTFT that it adds to", hint="Add ttft_ms, or leave it out."
        )
    return settings


def _ranges(section: Section) -> tuple[RangeSlo, ...]:
    return tuple(map(_range, section.sections("ranges"))) if "ranges" in section else ()


def _range(section: Section) -> RangeSlo:
    bounds = read_record(RangeSlo, section, end=range_end)
    if bounds.ttft_ms is None and bounds.tpot_ms is None:
        raise section.fault("ttft_ms", "given, or tpot_ms, in a range of slo.ranges", hint="Add a bound.")
    return bounds


def range_end(section: Section) -> int:
    """Where a row of a list by prompt length ends: beyond its `from`, or beyond any prompt."""
    low = section.integer("from", default=0) + 1
    return section.integer("to", default=LONGEST_PROMPT, low=low, high=LONGEST_PROMPT)
