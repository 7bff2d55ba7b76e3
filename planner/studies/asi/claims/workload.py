"""Figures 2 to 8: who asks for what, when and for how long."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import fmean

from planner.studies.asi.claims.figures import FOLLOWS, HOURS_A_DAY, IN, Figures, claim, near, spread
from planner.studies.asi.synthetic.marginals import FIRST_DAY
from planner.studies.asi.synthetic.trace import WEEKEND
from planner.studies.papers.records import Claim, Verdict

SELDOM, MOSTLY = 20, 50
"""Percent: below and above, what the paper says of a picture."""


def workload_claims(figures: Figures) -> Iterator[Claim]:
    """In the paper's order."""
    for part in (_types, _gpus, _over_time, _runs_and_sizes):
        yield from part(figures)


def _types(figures: Figures) -> Iterator[Claim]:
    stem = "figure_02_job_types"
    online = figures.each(stem, "job types", "online_inference", "all jobs")
    yield claim(
        figures,
        stem,
        IN,
        "online inference of the GPU-hours",
        "over 50 %",
        spread(online),
        Verdict.HOLDS if min(online) > 50 else Verdict.OPEN,
    )
    parts = {
        x: figures.each(stem, "priorities", "HP", x) for x in ("online_inference", "training", "offline_inference")
    }
    yield claim(
        figures,
        stem,
        IN,
        "guaranteed: online and training predominantly, offline rarely",
        "a picture",
        ", ".join(f"{name.split('_')[0]} {spread(values)}" for name, values in parts.items()),
        Verdict.HOLDS if max(parts["offline_inference"]) < SELDOM and min(parts["training"]) > MOSTLY else Verdict.OPEN,
    )
    dev = figures.each(stem, "priorities", "HP", "dev")
    words = "almost exclusively"
    yield claim(figures, stem, IN, "guaranteed jobs of dev's GPU-hours", words, spread(dev), near(dev, 99, 3))
    stem = "figure_03_model_types"
    for model, job_type, published in (
        ("genai", "training", 71),
        ("genai", "offline_inference", 98),
        ("rec", "online_inference", 63),
    ):
        values = figures.each(stem, "by job type", model, job_type)
        words = f"{model} of {job_type.replace('_', ' ')}"
        yield claim(figures, stem, IN, words, f"{published} %", spread(values), near(values, published, 3))


def _gpus(figures: Figures) -> Iterator[Claim]:
    stem = "figure_03_model_types"
    h800 = figures.each(stem, "by GPU type", "genai", "H800")
    yield claim(figures, stem, IN, "H800 dedicated to GenAI", "almost all", spread(h800), near(h800, 99, 3))
    stem = "figure_04_gpu_priorities"
    for gpu, published in (("A10", 83), ("L20", 85)):
        values = figures.each(stem, "GPU-hours", "HP", gpu)
        yield claim(
            figures,
            stem,
            FOLLOWS,
            f"guaranteed jobs of the GPU-hours of {gpu}",
            f"{published} %",
            spread(values),
            near(values, published, 4),
            "From which models and job types use it; nothing else ties priority to a GPU type here.",
        )
    low, lowest = figures.each(stem, "GPU-hours", "LP", "H800"), figures.each(stem, "GPU-hours", "LP", "A10")
    favoured = all(a > b for a, b in zip(low, lowest, strict=True))
    yield claim(
        figures,
        stem,
        FOLLOWS,
        "spot jobs favour newer GPUs as H800",
        "above that of A10, L20",
        f"{spread(low)}, A10 {spread(lowest)}",
        Verdict.HOLDS if favoured else Verdict.OPEN,
        "Because they run GenAI, which is on H800.",
    )


def _by_hour(curve: Sequence[tuple[float, float]]) -> dict[int, float]:
    hours: dict[int, list[float]] = defaultdict(list)
    for x, y in curve:
        hours[int(x) % HOURS_A_DAY].append(y)
    return {hour: fmean(values) for hour, values in hours.items()}


def _over_time(figures: Figures) -> Iterator[Claim]:
    stem, day = "figure_05_demand", {}
    for panel in ("GPUs asked for", "SM utilisation (%)"):
        for job_type in ("online_inference", "training"):
            by_hour = _by_hour(figures.curve(stem, panel, job_type))
            day[panel, job_type] = fmean(by_hour[h] for h in range(13, 19)) / fmean(by_hour[h] for h in range(1, 7))
    more = {job_type: day["GPUs asked for", job_type] for job_type in ("online_inference", "training")}
    yield claim(
        figures,
        stem,
        IN,
        "training and online inference ask for more GPUs by day than at night",
        "substantially more",
        f"training {more['training']:.2f}, online {more['online_inference']:.2f} times",
        Verdict.HOLDS if min(more.values()) > 1.05 else Verdict.CLOSE,
        "More jobs come by day than at night, but jobs last for hours, which evens out what they ask for.",
    )
    use = {job_type: day["SM utilisation (%)", job_type] for job_type in ("online_inference", "training")}
    yield claim(
        figures,
        stem,
        IN,
        "SM utilisation of online inference follows the day, that of training does not",
        "a picture",
        f"online {use['online_inference']:.2f}, training {use['training']:.2f} times by day",
        Verdict.HOLDS if use["online_inference"] > 1.5 and abs(use["training"] - 1) < 0.15 else Verdict.OPEN,
    )
    offline = figures.curve(stem, "SM utilisation (%)", "offline_inference")
    week, weekend = (
        fmean(y for x, y in offline if ((int(x) // HOURS_A_DAY - FIRST_DAY) % 7 in WEEKEND) is off)
        for off in (False, True)
    )
    yield claim(
        figures,
        stem,
        IN,
        "SM utilisation of offline inference falls at the weekend",
        "dropping sharply",
        f"{week:.0f} % on weekdays, {weekend:.0f} % at the weekend",
        Verdict.HOLDS if weekend < 0.75 * week else Verdict.OPEN,
    )
    stem = "figure_06_adoption"
    days = figures.curve(stem, "XPU-A", "HP")
    rise = days[-1][1] / fmean(y for x, y in days if x < 120)
    yield claim(
        figures,
        stem,
        IN,
        "guaranteed jobs ask for more XPU-A from day 120 on",
        "2.5 times",
        f"{rise:.1f} times by day {days[-1][0]:.0f}",
        near([rise], 2.5, 0.3),
        "Why is not known: jobs that came before stay for a while, which makes it less.",
    )


def _runs_and_sizes(figures: Figures) -> Iterator[Claim]:
    stem = "figure_07_run_times"
    median = figures.quantile(stem, "all", "all", 0.5)
    yield claim(figures, stem, IN, "median run time", "5 h", f"{median:.1f} h", near([median], 5, 0.5))
    by_type = {
        name: figures.quantile(stem, "by job type", name, 0.5) for name in ("dev", "online_inference", "training")
    }
    by_type["offline_inference"] = figures.quantile(stem, "by job type", "offline_inference", 0.5)
    ordered = by_type["dev"] > max(by_type["online_inference"], by_type["training"])
    shorter = by_type["offline_inference"] < min(by_type["online_inference"], by_type["training"])
    cells = ", ".join(f"{name.split('_')[0]} {hours:.1f}" for name, hours in by_type.items())
    yield claim(
        figures,
        stem,
        IN,
        "dev runs longest, offline inference shortest",
        "a picture",
        f"{cells} h (medians)",
        Verdict.HOLDS if ordered and shorter else Verdict.OPEN,
    )
    models = {name: figures.quantile(stem, "by model type", name, 0.5) for name in ("rec", "cv", "genai")}
    yield claim(
        figures,
        stem,
        FOLLOWS,
        "rec and CV models run longer than GenAI",
        "a picture",
        ", ".join(f"{name} {hours:.1f}" for name, hours in models.items()) + " h (medians)",
        Verdict.HOLDS if models["genai"] < min(models["rec"], models["cv"]) else Verdict.OPEN,
        "From which job types run them.",
    )
    stem = "figure_08_job_sizes"
    for series, middle, mean in (("all", 2, 11.0), ("GenAI", 4, 11.0)):
        medians = figures.each(stem, "GPUs a job", series, "P50")
        means = figures.each(stem, "GPUs a job", series, "mean")
        holds = middle in medians and near(means, mean, 1) is Verdict.HOLDS
        yield claim(
            figures,
            stem,
            IN,
            f"GPUs that a job asks for ({series}): median and mean",
            f"{middle} and {mean}",
            f"{fmean(medians):g} and {spread(means, '')}",
            Verdict.HOLDS if holds else Verdict.CLOSE,
            "" if holds else "On a fiftieth of the GPUs no job may ask for more than a quarter of a GPU type.",
        )
