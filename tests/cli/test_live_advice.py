"""`planner advise` of a running cluster: an API server that lists foreign objects, and a real Prometheus that scrapes
engines a fifth slower than the model has them."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from api_server import CUSTOM_KINDS, KINDS, ApiServer, kubeconfig
from command_line import Command
from foreign_metrics import CHAT, FOLDER, LEVELS, exposed, rows_of
from prometheus_servers import scraping

from planner import files
from planner.errors import EXIT_BAD_INPUT, EXIT_DONE

RATE, SLOW = 11.0, 0.8
PODS = [f"chat-llama70b-deployment-vllm-7c9f6d5b8-abcd{number}" for number in range(4)]
LABELS = {"namespace": "serving", "container": "vllm", "model_name": "chat", "service": "chat"}
SCRAPES = 19  # the share of the time with running requests is looked at every 15 s
SLO = [word for key, value in LEVELS.items() for word in ("--slo", f"{key}={value:g}")]


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    rows, start, scrapes = list(rows_of(CHAT, SLOW, RATE)), time.monotonic(), [0]

    def exposition() -> bytes:
        scrapes[0] += 1
        return exposed(rows, time.monotonic() - start, PODS, LABELS)

    with scraping(tmp_path_factory.mktemp("prometheus"), exposition, lambda _url: scrapes[0] > SCRAPES) as url:
        yield url


@pytest.fixture
def server(here: Path) -> Iterator[ApiServer]:
    """The foreign objects behind a token, among them a Secret that nobody asks for."""
    with ApiServer(kinds=(*KINDS, *CUSTOM_KINDS), token="t").serving() as served:
        documents = [body for path in sorted(FOLDER.glob("*.yaml")) for body in yaml.safe_load_all(path.read_text())]
        known = {kind.kind for kind in served.kinds}
        served.apply(*(body for body in documents if body["kind"] in known))
        kubeconfig(here / "config", served.url, token="t")
        yield served


CLUSTER = ("--kubernetes", "test", "--kubeconfig", "config")


def test_a_cluster_and_a_prometheus_tell_it_all(planner: Command, server: ApiServer, prometheus: str) -> None:
    words = ("--prometheus", prometheus, "--window", "1m", *SLO, "--out", "advised", "--json")
    done = planner("advise", *CLUSTER, *words)
    assert done.status == EXIT_DONE, done.err
    (service,) = done.json["services"]
    assert service["name"] == CHAT
    assert service["rate_rps"] == pytest.approx(RATE, rel=0.1)
    assert service["paces"][0]["pace"] == pytest.approx(SLOW, rel=0.03)
    assert any("KV caches are 95% full" in line for line in service["breaks"])
    assert any("lose their KV cache" in line for line in service["breaks"])
    workload = files.load_workload(f"advised/workloads/{CHAT}.yaml")
    assert workload.mean_input_tokens == pytest.approx(1154.7, rel=0.02)  # type: ignore[union-attr]
    unjudged = {row["name"]: " ".join(row["reasons"]) for row in done.json["not_judged"]}
    assert "its workload must be known" in unjudged["summarise"]
    assert "secrets" not in {asked.resource for asked in server.requests}
    planned = planner(*done.json["next"].split()[1:])
    assert planned.status == EXIT_DONE, planned.err
    assert planner("export", "advised-planned", "--out", "manifests").status == EXIT_DONE


def test_a_prometheus_that_knows_none_of_them(planner: Command, here: Path, prometheus: str) -> None:
    """Of the objects of a folder, too; then rates are not known, and nothing is calibrated."""
    assert here
    words = ("--manifests", str(FOLDER), "--prometheus", prometheus, "--window", "1m", "--json")
    done = planner("advise", *words, *SLO, "--workload", "azure-conv-2023")
    rates = {service["name"]: service["rate_rps"] for service in done.json["services"]}
    assert rates[CHAT] == pytest.approx(RATE, rel=0.1)
    assert rates["qwen3-32b"] is None
    notes = {service["name"]: service["notes"] for service in done.json["services"]}
    assert any("No metrics tell of it" in note for note in notes["qwen3-32b"])


def test_a_cluster_without_engines_or_answers(planner: Command, server: ApiServer) -> None:
    server.objects.clear()
    empty = planner("advise", *CLUSTER, "--workload", "azure-conv-2023")
    assert empty.status == EXIT_BAD_INPUT
    assert "must hold an engine that runs, holds none" in empty.err
    nobody = planner("advise", "--manifests", str(FOLDER), "--prometheus", "http://127.0.0.1:1")
    assert nobody.status == EXIT_BAD_INPUT
    assert "must answer within" in nobody.err
