"""The `slo:` section of a scenario."""

from planner.domain import RangeSlo, SloSettings
from planner.files.sections import Section

LONGEST = 100_000_000


def read_slo(section: Section) -> SloSettings:
    """Bounds on TTFT and TPOT. InputError where a bound is no positive number or ranges are empty."""
    section.allow_only("ttft_ms", "tpot_ms", "percentile", "ranges")
    ranges = section.sections("ranges") if "ranges" in section else ()
    settings = SloSettings(
        ttft_ms=_bound(section, "ttft_ms"),
        tpot_ms=_bound(section, "tpot_ms"),
        percentile=None if section.is_empty("percentile") else _percentile(section),
        ranges=tuple(_range(one) for one in ranges),
    )
    if settings.percentile is not None and not settings.bounds_anything:
        raise section.fault("percentile", "given with a bound, ttft_ms or tpot_ms", hint="Add a bound.")
    return settings


def slo_document(settings: SloSettings) -> dict[str, object]:
    """The section that `read_slo` reads back as the same settings."""
    return {
        "ttft_ms": settings.ttft_ms,
        "tpot_ms": settings.tpot_ms,
        "percentile": settings.percentile,
        "ranges": [
            {"from": one.start, "to": one.end, "ttft_ms": one.ttft_ms, "tpot_ms": one.tpot_ms}
            for one in settings.ranges
        ],
    }


def _percentile(section: Section) -> float:
    """In percent: nobody bounds the fastest hundredth, so a number below 1 is a share by mistake."""
    percentile = section.number("percentile", above=0, below=100)
    if percentile < 1:
        raise section.fault(
            "percentile",
            "in percent, at least 1",
            hint=f"Did you mean {100 * percentile:g}? Write that for P{100 * percentile:g}.",
        )
    return percentile


def _bound(section: Section, key: str) -> float | None:
    return None if section.is_empty(key) else section.number(key, above=0, high=1e9)


def _range(section: Section) -> RangeSlo:
    section.allow_only("from", "to", "ttft_ms", "tpot_ms")
    start = section.integer("from", default=0, low=0, high=LONGEST)
    found = RangeSlo(
        start=start,
        end=section.integer("to", default=LONGEST, low=start + 1, high=LONGEST),
        ttft_ms=_bound(section, "ttft_ms"),
        tpot_ms=_bound(section, "tpot_ms"),
    )
    if found.ttft_ms is None and found.tpot_ms is None:
        raise section.fault("ttft_ms", "given, or tpot_ms, in a range of slo.ranges", hint="Add a bound.")
    return found
