"""Figures 9 to 16: what is given out, used, idle, and lent."""

from collections.abc import Iterator, Sequence
from statistics import fmean

from planner.studies.asi.claims.figures import FOLLOWS, HOURS_A_DAY, IN, SEEDS, Figures, claim, near, spread
from planner.studies.asi.synthetic.trace import SERVERS_A_SWITCH
from planner.studies.papers.records import Claim, Verdict

NVIDIA_EIGHT = ("H20", "H800", "A100", "A800")
NIGHT = (22, 23, 0, 1, 2, 3)


def placement_claims(figures: Figures) -> Iterator[Claim]:
    """In the paper's order."""
    for part in (_allocation, _use, _idle, _switches, _standby):
        yield from part(figures)


def _allocation(figures: Figures) -> Iterator[Claim]:
    stem = "figure_09_allocation"
    for series, published in (("HP", 68), ("HP+LP", 93)):
        gpus = {gpu: count for (_, _, gpu), count in figures.points("figure_04_gpu_types").items()}
        values = [
            sum(figures.points(stem, seed)["allocation", series, gpu] * count for gpu, count in gpus.items())
            / sum(gpus.values())
            for seed in SEEDS
        ]
        yield claim(
            figures,
            stem,
            IN,
            f"GPUs given out ({series})",
            f"{published} %",
            f"{spread(values)}; mean over servers {spread(figures.each(stem, 'allocation', series, 'all'))}",
            near(values, published, 3),
            "The paper's scripts take the mean over servers, of which those of 1 GPU are more than half.",
        )
    gains = [
        fmean(points["allocation", "HP+LP", gpu] - points["allocation", "HP", gpu] for gpu in ("H800", "A800", "A100"))
        - fmean(points["allocation", "HP+LP", gpu] - points["allocation", "HP", gpu] for gpu in ("A10", "L20"))
        for points in (figures.points(stem, seed) for seed in SEEDS)
    ]
    yield claim(
        figures,
        stem,
        FOLLOWS,
        "spot jobs raise the allocation of high-end GPUs most",
        "a picture",
        f"by {spread(gains, ' points')} more on H800, A800, A100 than on A10, L20",
        Verdict.HOLDS if min(gains) > 0 else Verdict.OPEN,
    )
    stem = "figure_10_fractions"
    values = figures.each(stem, "parts of GPUs", "share", "of GPUs")
    yield claim(
        figures, stem, IN, "parts of GPUs of all GPUs asked for", "negligible", spread(values), near(values, 0, 1.5)
    )


def _use(figures: Figures) -> Iterator[Claim]:
    stem = "figure_11_utilisation"
    online = 100 * figures.quantile(stem, "GPU SMs", "online_inference", 0.5)
    yield claim(
        figures,
        stem,
        IN,
        "median SM utilisation of online inference",
        "6 %",
        f"{online:.1f} %",
        near([online], 6, 0.5),
        "From 5 % of GenAI and 6 % of classical models.",
    )
    sms = {
        name: 100 * figures.quantile(stem, "GPU SMs", name, 0.5)
        for name in ("training", "offline_inference", "online_inference", "dev")
    }
    values = list(sms.values())
    yield claim(
        figures,
        stem,
        IN,
        "SM utilisation: training highest, dev lowest",
        "a picture",
        ", ".join(f"{name.split('_')[0]} {value:.0f} %" for name, value in sms.items()),
        Verdict.HOLDS if values == sorted(values, reverse=True) else Verdict.OPEN,
    )
    stem = "figure_12_traffic"
    mixes = {mix for panel, mix, _ in figures.points(stem) if panel == "received"}
    medians = {mix: figures.quantile(stem, "received", mix, 0.5) for mix in mixes}
    first, second = sorted(medians, key=lambda mix: -medians[mix])[:2]
    yield claim(
        figures,
        stem,
        FOLLOWS,
        "of the six mixes, servers with training alone have most traffic",
        "a picture",
        f"{first.replace('_', ' ')} {medians[first]:.1f} GiB/s, then {second.replace('_', ' ')} {medians[second]:.1f}",
        Verdict.HOLDS if first == "training" else Verdict.OPEN,
        "Traffic is put in by GPU and job type, who shares a server is not.",
    )


def _idle(figures: Figures) -> Iterator[Claim]:
    stem = "figure_13_idle"
    for requests, cause, words in (
        (("1G8C", "8G128C"), "too few CPUs", "too few CPUs is the main cause for 1G8C and 8G128C"),
        (("4G32C", "4G48C", "4G64C", "8G64C"), "stranded", "stranded GPUs are, for 4G32C to 8G64C"),
    ):
        wins = [
            request
            for request in requests
            if fmean(figures.each(stem, "idle GPUs", cause, request))
            > max(fmean(figures.each(stem, "idle GPUs", other, request)) for other in _others(cause))
        ]
        yield claim(
            figures,
            stem,
            FOLLOWS,
            words,
            ", ".join(requests),
            ", ".join(wins) or "none",
            Verdict.HOLDS
            if len(wins) == len(requests)
            else Verdict.CLOSE
            if len(wins) > len(requests) / 2
            else Verdict.OPEN,
            ""
            if len(wins) == len(requests)
            else "How many cores CPU-only jobs of either priority have is not printed; ours are guaranteed, and their "
            "cores decide it. Parts of GPUs come of pods that begin or end within an hour.",
        )
    fraction = [
        sum(y for (_, cause, _), y in points.items() if cause == "fractional") / sum(points.values())
        for points in (figures.points(stem, seed) for seed in SEEDS)
    ]
    percent = [100 * value for value in fraction]
    yield claim(
        figures,
        stem,
        FOLLOWS,
        "parts of GPUs of all idle GPUs that cannot be given out",
        "barely any",
        spread(percent),
        near(percent, 0, 3),
    )


def _others(cause: str) -> tuple[str, ...]:
    return tuple(other for other in ("fractional", "stranded", "too few CPUs") if other != cause)


def _switches(figures: Figures) -> Iterator[Claim]:
    stem = "figure_14_job_slots"

    def fits(scope: str, gpus: Sequence[str], job: int = 128) -> float:
        return sum(fmean(figures.each(stem, f"jobs of {job} GPUs", scope, gpu)) for gpu in gpus)

    for job, reason in (
        (128, ""),
        (256, f"A switch here has {SERVERS_A_SWITCH} servers, all of which such a job needs; the paper's up to 64."),
    ):
        within, across = (fits(scope, ("heterogeneous",), job) for scope in ("within one switch", "across switches"))
        yield claim(
            figures,
            stem,
            FOLLOWS,
            f"fewer jobs of {job} GPUs fit within a switch than across",
            "significantly fewer",
            f"{within:.1f} and {across:.1f}",
            Verdict.HOLDS if within < across / 2 else Verdict.CLOSE,
            reason if within < across / 2 else "Not by half.",
        )
    nvidia, xpu = fits("within one switch", NVIDIA_EIGHT), fits("within one switch", ("XPU-A",))
    yield claim(
        figures,
        stem,
        FOLLOWS,
        "within a switch next to none of NVIDIA GPUs, some of XPU-A",
        "near zero; less affected",
        f"{nvidia:.1f} and {xpu:.1f}",
        Verdict.HOLDS if nvidia < xpu and xpu > 0 else Verdict.OPEN,
        "A fiftieth of the cluster has two to three switches of a type, so that numbers are small.",
    )
    across = fits("across switches", ("heterogeneous",))
    yield claim(
        figures,
        stem,
        FOLLOWS,
        "more jobs of 128 GPUs fit where GPU types may be mixed",
        "a higher capacity",
        f"{across:.1f}, by type {fits('across switches', (*NVIDIA_EIGHT, 'XPU-A')):.1f}",
        Verdict.HOLDS if across > fits("across switches", (*NVIDIA_EIGHT, "XPU-A")) else Verdict.OPEN,
        "",
    )


def _standby(figures: Figures) -> Iterator[Claim]:
    stem = "figure_16_standby"
    total = sum(y for (_, _, _), y in figures.points("figure_04_gpu_types").items())
    highest, used, hours = [], [], []
    for seed in SEEDS:
        points = figures.points(stem, seed)
        lent = {float(x): y for (panel, _, x), y in points.items() if panel == "standby GPU-hours"}
        highest.append(100 * max(lent.values()) / total)
        hours.append(int(max(lent, key=lent.__getitem__)) % HOURS_A_DAY)
        used.append(fmean(y for (_, series, _), y in points.items() if series == "as the paper counts"))
    yield claim(
        figures,
        stem,
        IN,
        "most lent GPU-hours in an hour, of all GPUs, around midnight",
        "6.4 % (10,000 of 155,410)",
        f"{spread(highest)}, at {', '.join(f'{hour}:00' for hour in hours)}",
        near(highest, 6.4, 1) if set(hours) <= set(NIGHT) else Verdict.OPEN,
        "Whole jobs lend, a few of them large.",
    )
    yield claim(
        figures,
        stem,
        FOLLOWS,
        "of lent GPU-hours used, as the paper's scripts count",
        "90 %",
        spread(used),
        near(used, 90, 3),
        "With the published policy. Spot jobs wait for every GPU type at all hours, and all that wait are tried.",
    )
