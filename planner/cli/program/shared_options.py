"""What several commands are given: seeds, who does the work of a sweep, a study or a search, and a Prometheus."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli import screen
from planner.errors import InputError

if TYPE_CHECKING:
    from planner.runs.live.kubernetes import Kubernetes
    from planner.runs.live.prometheus import Prometheus

MOST_SEEDS = 1000
LARGEST_SEED = 2**32 - 1


def seeds_of(text: str) -> tuple[int, ...]:
    """`42`, `42-51`, `1,5,42-44`: whole numbers, in the order given. InputError: other words, downwards, twice."""
    seeds: list[int] = []
    for part in text.split(","):
        first, dash, last = (piece.strip() for piece in part.partition("-"))
        if not _is_seed(first) or (dash and not _is_seed(last)):
            raise _bad_seeds(text, f"must be whole numbers from 0 to {LARGEST_SEED} and ranges of them")
        low, high = int(first), int(last) if dash else int(first)
        if high < low:
            raise _bad_seeds(text, f"must be ranges upwards, not from {low} to {high}")
        if high - low >= MOST_SEEDS:
            raise _bad_seeds(text, f"must be at most {MOST_SEEDS}")
        seeds.extend(range(low, high + 1))
    if len(set(seeds)) < len(seeds):
        raise _bad_seeds(text, "must name each seed once")
    if len(seeds) > MOST_SEEDS:
        raise _bad_seeds(text, f"must be at most {MOST_SEEDS}")
    return tuple(seeds)


def _is_seed(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= len(str(LARGEST_SEED)) and int(text) <= LARGEST_SEED


def _bad_seeds(text: str, rule: str) -> InputError:
    return InputError(f"--seeds: {rule}, got {text!r}.", hint="Write 42, or 42-51, or 1,5,42-44.")


Executor = Annotated[
    str,
    typer.Option(
        help="Who works: local (processes of this machine), serial (this process alone), dask (workers of Dask).",
        metavar="local|serial|dask",
    ),
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        help="With dask: the scheduler's address, tls://HOST:PORT. [default: a cluster on this machine]",
        show_default=False,
    ),
]

Answers = Annotated[
    list[Path] | None,
    typer.Argument(help="Answers of Prometheus (JSON) to the queries of --queries.", show_default=False),
]
Queries = Annotated[bool, typer.Option("--queries", help="Print the queries, as commands, and stop.")]


def typed_again(
    executor: str, scheduler: str | None, processes: int | None, seed: int | None, engine: str | None
) -> list[str]:
    """The options of a batch or a sweep as words of a command line, those that were not given left out: who goes on
    with it needs the same."""
    options = {"--scheduler": scheduler, "--processes": processes, "--seed": seed, "--engine": engine}
    words = ["--executor", executor] if executor != "local" else []
    return words + [word for name, value in options.items() if value is not None for word in (name, str(value))]


@dataclass(frozen=True, slots=True, kw_only=True)
class PrometheusFlags:
    """Which Prometheus is asked, and how."""

    prometheus: Annotated[
        str, typer.Option(help="Ask a Prometheus there, as http://localhost:9090.", show_default=False)
    ] = ""
    token_file: Annotated[
        Path | None,
        typer.Option(help="Its bearer token. [default: PLANNER_PROMETHEUS_TOKEN, where it is set]", show_default=False),
    ] = None
    ca_file: Annotated[
        Path | None, typer.Option(help="Certificates to trust. [default: the machine's]", show_default=False)
    ] = None

    def source(self) -> "Prometheus | None":
        """The Prometheus; None where none is named. InputError for an address that is none, or flags without it."""
        if not self.prometheus:
            if self.token_file or self.ca_file:
                raise InputError("--token-file, --ca-file: go with --prometheus alone.", hint="Leave them out.")
            return None
        from planner.runs.live.prometheus import prometheus_at

        return prometheus_at(self.prometheus, self.token_file, self.ca_file)


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesFlags:
    """Which running cluster is asked."""

    kubernetes: Annotated[
        str,
        typer.Option(
            metavar="CONTEXT",
            help="Ask a running cluster, read-only: a context of the kubeconfig, or `current`.",
            show_default=False,
        ),
    ] = ""
    kubeconfig: Annotated[
        Path | None, typer.Option(help="For --kubernetes. [default: KUBECONFIG, or ~/.kube/config]", show_default=False)
    ] = None

    def cluster(self) -> "Kubernetes | None":
        """The cluster, not asked yet; None where none is named. Raises InputError as `kubernetes_at`, and for a
        kubeconfig by itself."""
        if not self.kubernetes:
            if self.kubeconfig is not None:
                raise InputError("--kubeconfig: goes with --kubernetes alone.", hint="Add --kubernetes current.")
            return None
        from planner.runs.live.kubernetes import kubernetes_at

        return kubernetes_at(self.kubernetes, self.kubeconfig)


def show_queries(queries: Mapping[str, str], then: str, *, as_json: bool) -> None:
    """Queries as commands that leave answer files; `then`: what reads them."""
    if as_json:
        screen.show_json(dict(queries))
        return
    screen.show_text(f"# PROMETHEUS: where it answers, as http://localhost:9090; then {then} *.json")
    for name, query in queries.items():
        parameter = shlex.quote(f"query={query}")
        screen.show_text(f'curl -sfG "$PROMETHEUS/api/v1/query" --data-urlencode {parameter} -o {name}.json')
