"""Target `slurm`: a batch job that starts the launch scripts of target `script` on hosts that Slurm gives it, and the
router's programs on its first host.

The scripts are those that people start by hand; the job (`templates/slurm.sh`) does that for them. Hosts are known only
once it runs, so that the router's files name copies as they do for people, and the job puts hosts in their place.

Tried with Slurm 22.05.8 itself, on one machine with ten hosts of no GPUs: several components and one, copies that share
hosts, a copy that ended, scancel, and the signal before the end of its time.
"""

from collections.abc import Iterator, Mapping, Sequence

from planner.export.found import Kind
from planner.export.objects.scripts import Form, read_script, router_script_files, write_script
from planner.export.seams import Deployment, RouterProcess, Step, Target, TargetFiles
from planner.export.targets.script import LAUNCH_KIND, UNHEEDED, Launched, launch_files, launched_islands
from planner.export.targets.slurm.components import Component, check_ports, components, copy_rows, directives
from planner.export.targets.slurm.settings import NO_CONTAINER, OF_THE_JOB, SiteWords, site_words

FILE, KIND = "slurm.sbatch", "Slurm job"
FORM = Form(
    template="slurm",
    settings=("name", "container", "mounts", "health", "pause"),
    lists=("copies", "programs", "filled"),
    directives="#SBATCH ",
)
_ENDING_S = 60
"""From the signal before the job's end to the end (s): engines and programs leave within."""
_PAUSE_S = 10
"""Before what ended starts again, and between looks whether it answers (s)."""
_NEXT = "hetjob"


def _manifests(deployment: Deployment, /) -> TargetFiles:
    """The launch scripts, and a job that starts them.

    Raises:
        ExportError: as of target `script`, or what one job cannot hold.
        InputError: a name or a word of the options that cannot stand in a script.
    """
    launched = launched_islands(deployment)
    written = launch_files(deployment, launched)
    return TargetFiles(files={**written.files, FILE: _job(deployment, launched, ())}, endpoints=written.endpoints)


def _processes(processes: Sequence[RouterProcess], deployment: Deployment, /) -> dict[str, str]:
    """The programs' scripts as of target `script`, and the job once more, which now starts them."""
    return {
        **router_script_files(processes, deployment),
        FILE: _job(deployment, launched_islands(deployment), processes),
    }


def _job(deployment: Deployment, launched: Sequence[Launched], processes: Sequence[RouterProcess]) -> str:
    site = site_words(deployment.options, {each.island.gpu.name for each in launched})
    parts = components(deployment, launched)
    check_ports(parts[0], processes)
    return write_script(
        FORM,
        tuple(_comments(deployment, parts)),
        settings={
            "name": deployment.name,
            "container": site.of("container") or NO_CONTAINER,
            "mounts": site.of("mounts"),
            "health": launched[0].launches[0].health_path,
            "pause": _PAUSE_S,
        },
        lists={
            "copies": [row for number, part in enumerate(parts) for row in copy_rows(number, part, deployment, site)],
            "programs": [_program_row(process, deployment, site) for process in processes],
            "filled": [file for process in processes for file, _ in process.config],
        },
        directives=tuple(_directives(deployment, parts, site)),
    )


def _program_row(process: RouterProcess, deployment: Deployment, site: SiteWords) -> str:
    script = f"{process.name.removeprefix(f'{deployment.name}-')}.sh"
    row = (process.name, script, process.port, process.health_path, process.cpus, site.pulled(process.image))
    return " ".join(map(str, row))


def _directives(deployment: Deployment, parts: Sequence[Component], site: SiteWords) -> Iterator[str]:
    yield f"--job-name={deployment.name}"
    yield f"--signal=B:TERM@{_ENDING_S}"
    yield "--no-kill"
    for option in OF_THE_JOB:
        if word := site.of(option):
            yield f"--{option}={word}"
    for number, part in enumerate(parts):
        if number:
            yield _NEXT
        yield from directives(part, deployment, site)


def _comments(deployment: Deployment, parts: Sequence[Component]) -> Iterator[str]:
    yield f"Plan {deployment.plan.scenario.name} as a job of Slurm, {len(parts)} components: sbatch {FILE}, from the"
    yield "folder of the export, which all hosts must see. What it says goes to the job's output."
    for number, part in enumerate(parts):
        islands = dict.fromkeys(copy.launched.island.name for copy in part.copies)
        yield f"Component {number}: copies of {', '.join(islands)}, {len(part.copies)} in all, on {part.hosts} hosts."
    yield "A copy that ends starts again by itself, on its hosts; the others go on. A host that is lost stays lost, and"
    yield "the job goes on without it, unless it is the first one, where the router's programs run."


def _parsed(text: str) -> Iterator[object]:
    document = read_script(FORM, text)
    del document["commands"]
    yield document | {"metadata": {"name": document.pop("name")}}


def _steps(files: Mapping[str, str], /) -> tuple[Step, ...]:
    """One job."""
    read = ", ".join(sorted(name for name in files if name.endswith((".sh", ".cfg", ".lua"))))
    return (
        Step(
            title="The job",
            why=f"From this folder, on a file system that all hosts share, where it finds {read}. It starts every "
            "copy, then the router's programs, and its output says where requests are taken.",
            commands=(f"sbatch {FILE}",),
            looks=("squeue --me", "tail slurm-JOB.out"),
            undo=("scancel JOB",),
        ),
    )


SLURM = Target(
    name="slurm",
    manifests=_manifests,
    kinds=(LAUNCH_KIND, Kind(kind=KIND, schema="slurm_job.json", files="*.sbatch", parse=_parsed)),
    unheeded=tuple(name for name in UNHEEDED if name not in ("cpus_per_gpu", "memory_gib_per_gpu")),
    options=("sbatch",),
    applied=False,
    steps=_steps,
    processes=_processes,
)
