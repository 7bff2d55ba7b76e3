"""sbatch, srun and scontrol of a Slurm whose hosts are loopback addresses of this machine, called by its first
word. Only what the manual pages of Slurm 26.11 document is taken; anything else ends with status 1.

SIM_FOLDER has `hosts.json`: GPU type -> hosts, of 8 GPUs each; what is allotted and what runs is written there.
"""

import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

HERE = Path(__file__).resolve().parent
GPUS = 8
PYXIS = {"container-image": "=", "container-mounts": "="}
_NAME, _AMOUNT = re.compile(r"--([a-z0-9-]+)(?:=(.*))?"), re.compile(r"0|[1-9][0-9]*[KMGT]?")
_NUMBERS = ("nodes", "ntasks", "ntasks-per-node", "cpus-per-task")


def refuse(text: str) -> NoReturn:
    raise SystemExit(f"error: {text}")


def documented(program: str) -> dict[str, str]:
    """Option -> "=" where it takes a value, "?" where it may, else nothing."""
    lines = (HERE / f"{program}_options.txt").read_text(encoding="utf-8").splitlines()[1:]
    return {line.rstrip("=?"): line[len(line.rstrip("=?")) :] for line in lines}


def option(word: str, known: Mapping[str, str]) -> tuple[str, str]:
    """Name and value of an option that stands in one word."""
    match = _NAME.fullmatch(word)
    if match is None or match[1] not in known:
        refuse(f"unrecognized option '{word}'")
    name, value = match[1], match[2]
    if (known[name] == "=") > bool(value) or (not known[name] and value is not None):
        refuse(f"option '--{name}' {'requires' if known[name] else 'takes no'} value, got '{word}'")
    if name in _NUMBERS and not re.fullmatch("[1-9][0-9]*", value):
        refuse(f"--{name}: must be a number, got {value}")
    if name == "mem" and not _AMOUNT.fullmatch(value):
        refuse(f"--mem: must be an amount, got {value}")
    return name, value or ""


def directives(text: str) -> list[dict[str, str]]:
    """The options of each component; `#SBATCH` is read up to the first line that is no comment."""
    known = documented("sbatch")
    parts: list[dict[str, str]] = [{}]
    for line in text.splitlines()[1:]:
        if line.strip() and not line.startswith("#"):
            break
        if not line.startswith("#SBATCH"):
            continue
        words = line.split()[1:]
        if words == ["hetjob"]:
            parts.append({})
            continue
        for word in words:
            name, value = option(word, known)
            if name in parts[-1]:
                refuse(f"--{name} is given twice")
            parts[-1][name] = value
    return parts


def gres(text: str) -> tuple[str, int]:
    """GPU type (empty: any) and number."""
    kind, _, count = text.rpartition(":")
    if not count.isdecimal():
        refuse(f"--gpus-per-node: must be [type:]number, got {text}")
    return kind, int(count)


def allot(part: Mapping[str, str], free: dict[str, list[str]]) -> list[str]:
    """Hosts of a component, which no other has: a job waits until each could have its own."""
    kind, count = gres(part["gpus-per-node"])
    if count > GPUS or int(part["ntasks-per-node"]) > GPUS:
        refuse("Requested node configuration is not available")
    hosts = free.get(kind, [])
    wanted = int(part["nodes"])
    if pinned := part.get("nodelist"):
        taken = [host for host in hosts if host in pinned.split(",")]
    else:
        taken = hosts[:wanted]
    if len(taken) != wanted:
        refuse("Requested node configuration is not available")
    free[kind] = [host for host in hosts if host not in taken]
    return taken


def compressed(hosts: Sequence[str]) -> str:
    """As Slurm writes lists of hosts."""
    numbers = sorted(int(host.rpartition(".")[2]) for host in hosts)
    prefix = hosts[0].rpartition(".")[0]
    assert numbers == [*range(numbers[0], numbers[-1] + 1)], "hosts of these tests are next to each other"
    return f"{prefix}.[{numbers[0]}-{numbers[-1]}]" if len(numbers) > 1 else hosts[0]


def expanded(text: str) -> list[str]:
    match = re.fullmatch(r"(.*)\[(\d+)-(\d+)\]", text)
    return [f"{match[1]}{number}" for number in range(int(match[2]), int(match[3]) + 1)] if match else [text]


def sbatch(folder: Path, words: Sequence[str]) -> int:
    """Runs the job and waits for it; a signal goes to its shell, as `--signal=B:` and scancel send it."""
    (file,) = words
    text = Path(file).read_text(encoding="utf-8")
    parts = directives(text)
    free = json.loads((folder / "hosts.json").read_text())
    allotted = [allot(part, free) for part in parts]
    write(folder, "allotted", [{"hosts": hosts, **part} for hosts, part in zip(allotted, parts, strict=True)])
    write(folder, "taken", {})
    spooled = folder / "spool.sh"
    spooled.write_text(text, encoding="utf-8")
    several = {"SLURM_HET_SIZE": str(len(parts))} if len(parts) > 1 else {}
    lists = {f"SLURM_JOB_NODELIST_HET_GROUP_{at}": compressed(hosts) for at, hosts in enumerate(allotted)}
    environment = {
        **{"SLURM_JOB_ID": "7", "SLURM_SUBMIT_DIR": str(Path.cwd()), "SLURMD_NODENAME": allotted[0][0]},
        **(several | lists if several else {}),
        "SLURM_JOB_NODELIST": compressed(allotted[0]),
    }
    with (folder / "job.out").open("w") as out:
        job = subprocess.Popen(["bash", spooled], env={**os.environ, **environment}, stdout=out, stderr=out)
        signal.signal(signal.SIGTERM, lambda *_: job.send_signal(signal.SIGTERM))
        return job.wait()


def write(folder: Path, name: str, value: object) -> None:
    (folder / f"{name}.json").write_text(json.dumps(value))


@contextmanager
def ledger(folder: Path) -> Iterator[dict[str, list[int]]]:
    """Host -> its GPUs that steps have."""
    with (folder / "taken.json").open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        taken = json.load(file)
        yield taken
        file.seek(0)
        file.truncate()
        json.dump(taken, file)


def srun(folder: Path, words: Sequence[str]) -> int:
    """A step: a process for each task, which ends when one of them fails, or when it is told to."""
    known, given = documented("srun") | PYXIS, dict[str, str]()
    rest = list(words)
    while rest and rest[0].startswith("-"):
        name, value = option(rest.pop(0), known)
        given[name] = value
    component, hosts = check_step(folder, given)
    kind, count = gres(given["gpus-per-node"])
    if kind not in ("", gres(component["gpus-per-node"])[0]):
        refuse("Invalid GRES specification")
    with ledger(folder) as taken:
        held = {host: [gpu for gpu in range(GPUS) if gpu not in taken.get(host, [])][:count] for host in hosts}
        if any(len(gpus) < count for gpus in held.values()):
            refuse("step creation: requested nodes are busy")
        for host, gpus in held.items():
            taken[host] = [*taken.get(host, []), *gpus]
    try:
        return run_tasks(folder, given, hosts, held, rest)
    finally:
        with ledger(folder) as taken:
            for host, gpus in held.items():
                taken[host] = [gpu for gpu in taken[host] if gpu not in gpus]


def check_step(folder: Path, given: Mapping[str, str]) -> tuple[Mapping[str, Any], list[str]]:
    allotted = json.loads((folder / "allotted.json").read_text())
    if len(allotted) > 1 and "het-group" not in given:
        refuse("these steps name their component")
    component = allotted[int(given.get("het-group", "0"))]
    hosts = given["nodelist"].split(",")
    if not set(hosts) <= set(component["hosts"]):
        refuse("Requested nodes not in job allocation")
    per_host = int(given.get("ntasks-per-node", given["ntasks"]))
    if int(given["nodes"]) != len(hosts) or int(given["ntasks"]) != len(hosts) * per_host:
        refuse("nodes, tasks and hosts must fit")
    if ("exact" in given) == ("overlap" in given):
        refuse("steps beside each other are exact, or overlap")
    return component, hosts


def run_tasks(
    folder: Path, given: Mapping[str, str], hosts: Sequence[str], held: Mapping[str, list[int]], words: Sequence[str]
) -> int:
    per_host = int(given["ntasks"]) // len(hosts)
    tasks: list[subprocess.Popen[bytes]] = []
    signal.signal(signal.SIGTERM, lambda *_: [task.terminate() for task in tasks])
    with Path(given["output"]).open("a") as out:
        for at, host in enumerate(sorted(hosts)):  # whatever the order of --nodelist, as Slurm does
            for local in range(per_host):
                numbers = {"SLURM_PROCID": str(at * per_host + local), "SLURM_LOCALID": str(local)}
                shown = {"CUDA_VISIBLE_DEVICES": ",".join(map(str, held[host]))} if held[host] else {}
                environment = {**os.environ, **numbers, **shown, "SLURMD_NODENAME": host, "SIM_STEP": json.dumps(given)}
                tasks.append(subprocess.Popen(list(words), env=environment, stdout=out, stderr=out))
        while any(task.poll() is None for task in tasks):
            if any(task.poll() for task in tasks):
                for task in tasks:
                    with suppress(ProcessLookupError):
                        task.terminate()
            time.sleep(0.02)
    return max(abs(task.returncode) for task in tasks)


def scontrol(_folder: Path, words: Sequence[str]) -> int:
    if words[:2] != ["show", "hostnames"] or len(words) != 3:
        refuse(f"invalid keyword: {' '.join(words)}")
    sys.stdout.write("".join(f"{host}\n" for host in expanded(words[2])))
    return 0


if __name__ == "__main__":
    programs = {"sbatch": sbatch, "srun": srun, "scontrol": scontrol}
    raise SystemExit(programs[sys.argv[1]](Path(os.environ["SIM_FOLDER"]), sys.argv[2:]))
