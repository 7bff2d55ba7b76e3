"""The jobs of a batch: a jobs file, or a folder of scenarios, spread out over its lists; and their share of a shard."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

from planner import export
from planner.errors import InputError, PlannerError, SeveralMistakesError
from planner.files.plan.batches.jobs_files import ENGINE, SEED, ListedJobs, load_listed_jobs
from planner.files.scenario.settings import Setting, set_over
from planner.runs.batches.jobs import Job, with_content

MOST_JOBS = 100_000
_MOST_MISTAKES = 20
_NO_LETTERS = re.compile(r"[^A-Za-z0-9.]+")
_LONGEST_LABEL, _LONGEST_MISTAKE = 24, 1500


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedJob:
    """A job as it is called beside others; `place`: where it is listed."""

    name: str
    place: str
    job: Job


def list_jobs(
    source: Path, *, settings: Sequence[Setting] = (), seed: int | None = None, engine: str | None = None
) -> tuple[NamedJob, ...]:
    """Every job, each name once. `settings`, `seed` and `engine` stand above what the source says.

    Every scenario is read. Raises InputError with all that is wrong, where one name would be of two contents, and for
    more than 100,000 jobs.
    """
    listed = load_listed_jobs(source)
    _require_few(source, listed)
    bare = [job for entry in listed for job in _spread(entry, settings, seed, engine)]
    return _each_name_once(source, _with_contents(source, bare))


def _require_few(source: Path, listed: Sequence[ListedJobs]) -> None:
    total = 0
    for entry in listed:
        points = 1
        for axis in entry.axes:
            points *= len(axis.values)
        total += points
    if total > MOST_JOBS:
        raise InputError(
            f"{source}: must list at most {MOST_JOBS:,} jobs, got {total:,}.", hint="Make several batches."
        )


def _spread(entry: ListedJobs, settings: Sequence[Setting], seed: int | None, engine: str | None) -> Iterator[NamedJob]:
    """A job for every combination of the values of the lists; names tell those that vary."""
    points = list(product(*(axis.settings for axis in entry.axes)))
    names = [_name(entry, point) for point in points]
    twice = Counter(names)
    for number, (point, name) in enumerate(zip(points, names, strict=True), start=1):
        chosen = {setting.key: setting for setting in point}
        keys = [setting for key, setting in chosen.items() if key not in (SEED, ENGINE)]
        seeds, engines = chosen.get(SEED), chosen.get(ENGINE)
        job = Job(
            scenario=entry.scenario,
            folder=Path(),
            settings=set_over(set_over(entry.settings, keys), settings),
            seed=seed if seed is not None else _whole_number(seeds),
            engine=engine or (str(engines.value) if engines else None),
        )
        yield NamedJob(name=f"{name}-{number}" if twice[name] > 1 else name, place=entry.place, job=job)


def _whole_number(setting: Setting | None) -> int | None:
    return int(str(setting.value)) if setting else None


def _name(entry: ListedJobs, point: Sequence[Setting]) -> str:
    varying = (_label(setting) for setting, axis in zip(point, entry.axes, strict=True) if len(axis.values) > 1)
    return "-".join([entry.name, *filter(None, varying)])


def _label(setting: Setting) -> str:
    """A value in a word."""
    text = setting.label
    if setting.key == SEED:
        text = f"s{text}"
    if setting.key == "workload":
        text = Path(str(setting.value)).stem
    if isinstance(setting.value, dict):
        text = "-".join(f"{key}x{value}" for key, value in setting.value.items())
    return _NO_LETTERS.sub("-", text)[:_LONGEST_LABEL].strip("-.")


def _with_contents(source: Path, jobs: Sequence[NamedJob]) -> list[NamedJob]:
    """The jobs with what decides their plans, or one error with all that is wrong with their scenarios."""
    mistakes: dict[str, PlannerError] = {}
    read = []
    for listed in jobs:
        try:
            if listed.job.engine is not None:
                _require_engine(listed)
            read.append(replace(listed, job=with_content(listed.job)))
        except InputError as error:
            mistakes.setdefault(_without_settings(error, listed), _placed(error, listed))
            if len(mistakes) == _MOST_MISTAKES:
                break
    if mistakes:
        raise _joined(source, tuple(mistakes.values()))
    return read


def _without_settings(error: InputError, listed: NamedJob) -> str:
    """What is wrong, alike for all jobs of which it is: where a scenario's error names the settings, without them."""
    settings = ", ".join(setting.text for setting in listed.job.settings)
    return error.message.replace(f"{listed.job.scenario} with {settings}", str(listed.job.scenario))


def _placed(error: InputError, listed: NamedJob) -> InputError:
    """The error with the first job that has it; only the beginning of long ones, as others follow."""
    text = error.message if len(error.message) <= _LONGEST_MISTAKE else f"{error.message[:_LONGEST_MISTAKE]} ..."
    return InputError(f"{listed.name} ({listed.place}): {text}", hint=error.hint)


def _joined(source: Path, mistakes: tuple[PlannerError, ...]) -> PlannerError:
    """The only mistake, or one error with all."""
    if len(mistakes) == 1:
        return InputError(f"{source}: {mistakes[0].message}", hint=mistakes[0].hint)
    items = "\n".join("  " + str(error).replace("\n", "\n    ") for error in mistakes)
    more = ", and perhaps more" if len(mistakes) == _MOST_MISTAKES else ""
    return SeveralMistakesError(
        f"{source}: {len(mistakes)} mistakes{more}:\n{items}",
        hint="Mend them all; nothing was planned.",
        mistakes=mistakes,
    )


def _require_engine(listed: NamedJob) -> None:
    if listed.job.engine not in export.ENGINES:
        raise InputError(
            f"engines: must be of {', '.join(export.ENGINES)}, got {listed.job.engine!r}.", hint="Choose one of them."
        )


def _each_name_once(source: Path, jobs: Sequence[NamedJob]) -> tuple[NamedJob, ...]:
    """Jobs of one name and content are one; InputError where a name is of two contents."""
    first: dict[str, NamedJob] = {}
    for listed in jobs:
        other = first.setdefault(listed.name, listed)
        if other.job.content != listed.job.content:
            raise InputError(
                f"{source}: two different jobs are called {listed.name}: {other.place} and {listed.place}.",
                hint="Give one of them another name.",
            )
    return tuple(first.values())


_DIGITS = 12
_MOST_JOBS = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """Part `index` of `count`, counted from 0."""

    index: int
    count: int

    @property
    def name(self) -> str:
        """For names of files."""
        return f"{self.index}-of-{self.count}"

    def takes(self, job: Job) -> bool:
        """Whether a job, which knows its content, is this part's. Jobs of equal content are of one part."""
        return int(job.content[:_DIGITS], 16) % self.count == self.index

    def of(self, jobs: Sequence[Job]) -> list[Job]:
        """The jobs of this part, in their order."""
        return [job for job in jobs if self.takes(job)]


def read_shard(text: str) -> Shard:
    """`3/16`: the fourth of sixteen parts. Raises InputError."""
    match = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", text)
    index, count = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 0 <= index < count <= _MOST_JOBS:
        raise InputError(
            f"--shard: must be I/N, part I of N counted from 0, got {text!r}.", hint="Write 0/4, 1/4, 2/4 and 3/4."
        )
    return Shard(index=index, count=count)
