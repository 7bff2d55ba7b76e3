"""`planner cluster import --kubernetes`: a stand-in API server asked as kubectl asks it, refusals, and credentials."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from api_server import CUSTOM_KINDS, KINDS, OPERATOR, ApiServer, Asked, certificate, kubeconfig, permits
from command_line import Answer, Command

import planner as front
from planner.errors import EXIT_BAD_INPUT, EXIT_DONE, EXIT_FAILURE, InputError
from planner.runs.live import api_sessions
from planner.runs.live.api_resources import ADVISE, IMPORT, RESOURCES, WATCH, resources_of
from planner.runs.live.kubernetes import kubernetes_at

sys.path.insert(0, str(Path(__file__).parents[1] / "export" / "tools"))
sys.path.insert(0, str(Path(__file__).parents[1] / "placement"))

from locations import program
from recorded_sources import agent_flextopo, kubectl_node, kubectl_pod

CLUSTERS = Path(__file__).parents[1] / "data" / "clusters"
SECRET = "tell-nobody"
NOW = datetime(2026, 11, 27, 12, 0, tzinfo=UTC)
TAKEN_AT = "2026-11-27T12:00:00Z"


@cache
def listed(name: str) -> dict[str, Any]:
    """What kubectl printed of a cluster."""
    return dict(json.loads((CLUSTERS / f"{name}.json").read_text()))


def small() -> list[dict[str, Any]]:
    """Two nodes, and a pod whose environment and annotations are nobody's business."""
    pod = kubectl_pod("a", "n-1", gpus=8, metadata={"annotations": {"last-applied": f"token: {SECRET}"}})
    pod["spec"]["containers"][0]["env"] = [{"name": "HF_TOKEN", "value": SECRET}]
    return [kubectl_node("n-1"), kubectl_node("n-2"), pod]


@pytest.fixture
def server() -> Iterator[ApiServer]:
    """A small cluster behind a token; a kubeconfig `config` leads to it."""
    with ApiServer(kinds=(*KINDS, *CUSTOM_KINDS), token=SECRET, now=NOW).serving() as served:
        served.apply(*small())
        kubeconfig(Path("config"), served.url, token=SECRET)
        yield served


def imported(planner: Command, *flags: object, context: str = "test") -> Answer:
    return planner(
        "cluster", "import", "--kubernetes", context, "--kubeconfig", "config", "--out", "live.yaml", "--force", *flags
    )


@pytest.mark.parametrize("name", ["base", "mig_single", "other", "full_batch", "gb200"])
def test_what_a_server_lists_is_what_kubectl_printed(planner: Command, server: ApiServer, name: str) -> None:
    """In pages of three objects, whose ages follow from the server's time."""
    server.objects.clear()
    server.apply(listed(name))
    server.page = 3
    live = imported(planner)
    assert live.status == EXIT_DONE, live.err
    in_order = [item for _, item in sorted(server.objects.items())]  # as a server lists them
    Path("list.json").write_text(json.dumps({"kind": "List", "items": in_order}))
    saved = ("--kubectl", "list.json", "--taken-at", TAKEN_AT)
    assert planner("cluster", "import", *saved, "--out", "saved.yaml").status == EXIT_DONE
    assert Path("live.yaml").read_text() == Path("saved.yaml").read_text()
    assert {asked.verb for asked in server.requests} == {"list", "get"}
    assert all(asked.query.split("&")[0] == "limit=500" for asked in server.requests if asked.verb == "list")
    assert {asked.path for asked in server.requests if asked.verb == "get"} == {"/apis"}


def test_notebooks_ask_it_too(planner: Command, server: ApiServer) -> None:
    assert imported(planner).status == EXIT_DONE
    asked = front.cluster(kubernetes="test", kubeconfig="config")
    assert asked.record == front.cluster("live.yaml").record
    with pytest.raises(InputError, match=r"must have one of files, kubernetes=CONTEXT and synthetic=NODES, got 2"):
        front.cluster("live.yaml", kubernetes="test")


def test_kubectl_itself_gives_the_same(planner: Command, server: ApiServer) -> None:
    """Over TLS: without it kubectl sends no token."""
    kubectl = program("kubectl")
    server.objects.clear()
    server.apply(listed("base"))
    tls, authority = certificate(Path())
    secure = ApiServer(kinds=server.kinds, token=SECRET, now=NOW, page=4, objects=server.objects)
    with secure.serving(tls):
        kubeconfig(Path("config"), secure.url, token=SECRET, cluster={"certificate-authority": str(authority)})
        words = (kubectl, "--kubeconfig", "config", "get", "nodes,pods,pdb,resourceclaims", "-A", "-o", "json")
        done = subprocess.run(words, capture_output=True, env={**os.environ, "HOME": "."}, check=True, timeout=60)
        Path("list.json").write_bytes(done.stdout)
        live = imported(planner)
        assert live.status == EXIT_DONE, live.err
    saved = ("--kubectl", "list.json", "--taken-at", TAKEN_AT)
    assert planner("cluster", "import", *saved, "--out", "saved.yaml").status == EXIT_DONE
    assert Path("live.yaml").read_text() == Path("saved.yaml").read_text()


def test_topologies_are_read_where_the_server_has_them(planner: Command, server: ApiServer) -> None:
    """One of a node that is gone is passed over; a file of the same objects gives the same."""
    server.objects.clear()
    node = kubectl_node("10.0.0.40", labels={"nvidia.com/gpu.product": "NVIDIA-H200"})
    topo, gone = agent_flextopo("10.0.0.40"), agent_flextopo("10.0.0.41")
    for vertex in (vertex for document in (topo, gone) for vertex in document["spec"]["nodes"]):
        if vertex["type"] == "GPU":
            vertex["attributes"]["name"] = "NVIDIA H200"
    server.apply(node, topo, gone)
    live = imported(planner)
    assert live.status == EXIT_DONE, live.err
    assert "FlexTopo 10.0.0.41: passed over: the server has no such node any more" in live.err
    Path("nodes.json").write_text(json.dumps({"kind": "List", "items": [node]}))
    Path("topo.yaml").write_text(yaml.safe_dump(topo))
    saved = planner("cluster", "import", "--kubectl", "nodes.json", "--flextopo", "topo.yaml", "--out", "saved.yaml")
    assert saved.status == EXIT_DONE, saved.err
    live_nodes, saved_nodes = (yaml.safe_load(Path(name).read_text()) for name in ("live.yaml", "saved.yaml"))
    assert live_nodes["nodes"] == saved_nodes["nodes"]


def role(planner: Command, *commands: str) -> list[dict[str, Any]]:
    """Rules of the role that `planner cluster rbac` prints."""
    printed = planner("cluster", "rbac", *(word for command in commands for word in ("--for", command)))
    assert printed.status == EXIT_DONE, printed.err
    documents = list(yaml.safe_load_all(printed.out))
    for document in documents:
        kubernetes_validate.validate(document, kubernetes_validate.latest_version(), strict=True)
    assert [document["kind"] for document in documents] == ["ServiceAccount", "ClusterRole", "ClusterRoleBinding"]
    return list(documents[1]["rules"])


def grants(rules: list[dict[str, Any]]) -> set[tuple[str, str, str]]:
    """Verb, group and resource, one by one."""
    return {
        (verb, group, name)
        for rule in rules
        for verb in rule["verbs"]
        for group in rule.get("apiGroups", [""])
        for name in (*rule.get("resources", []), *rule.get("nonResourceURLs", []))
    }


@pytest.mark.parametrize("command", [IMPORT, WATCH, ADVISE])
def test_the_role_allows_what_a_command_asks_and_no_more(planner: Command, server: ApiServer, command: str) -> None:
    server.rules = role(planner, command)
    answer = kubernetes_at("test", Path("config")).read(resources_of(command))
    assert answer.notes == ()
    used = {(asked.verb, asked.group, asked.resource or asked.path) for asked in server.requests}
    assert used == grants(server.rules)
    assert grants(server.rules) <= grants(role(planner))
    assert not {"secrets", "*"} & {resource for _, _, resource in grants(role(planner))}


def test_an_import_needs_no_more_than_its_role(planner: Command, server: ApiServer) -> None:
    server.rules = role(planner, "cluster import")
    answer = imported(planner)
    assert answer.status == EXIT_DONE
    assert "could not be listed" not in answer.err
    assert not permits(server.rules[0], Asked("create", "/api/v1/pods", "", "pods"))


def test_roles_are_of_commands_and_namespaces_that_there_may_be(planner: Command) -> None:
    assert "--for: must be" in planner("cluster", "rbac", "--for", "plan").err
    assert "--namespace: must be" in planner("cluster", "rbac", "--namespace", "A\nb").err
    assert "namespace: serving" in planner("cluster", "rbac", "--namespace", "serving").out


def test_what_may_not_be_listed_is_noted_or_refused(planner: Command, server: ApiServer) -> None:
    server.forbidden = {"poddisruptionbudgets"}
    noted = imported(planner)
    assert noted.status == EXIT_DONE
    assert "poddisruptionbudgets of policy: could not be listed (HTTP 403)" in noted.err
    assert "could not be listed" in Path("live.yaml").read_text()
    strict = imported(planner, "--strict")
    assert strict.status == EXIT_BAD_INPUT
    assert "must be allowed to list poddisruptionbudgets of policy" in strict.err
    for resource, words in (("nodes", "must be allowed to list nodes"), ("/apis", "must be allowed to get /apis")):
        server.forbidden = {resource}
        refused = imported(planner)
        assert refused.status == EXIT_BAD_INPUT
        assert words in refused.err
        assert "planner cluster rbac" in refused.err


def test_a_list_that_expires_is_begun_anew_once(planner: Command, server: ApiServer) -> None:
    server.page, server.expire = 1, 1
    assert imported(planner).status == EXIT_DONE
    assert [node["name"] for node in yaml.safe_load(Path("live.yaml").read_text())["nodes"]] == ["n-1", "n-2"]
    server.expire = 2
    refused = imported(planner)
    assert refused.status == EXIT_BAD_INPUT
    assert "must answer /api/v1/nodes, got HTTP 410" in refused.err


def test_a_node_whose_clock_is_ahead_ages_nothing_below_zero(planner: Command, server: ApiServer) -> None:
    """Its pod began a second after the server's time, another a minute before."""
    for name, started in (("b", "2026-11-27T12:00:01Z"), ("c", "2026-11-27T11:59:01Z")):
        pod = kubectl_pod(name, "n-2", gpus=1)
        pod["status"]["startTime"] = started
        server.apply(pod)
    assert imported(planner).status == EXIT_DONE
    ages = {pod["name"]: pod.get("age_s") for pod in yaml.safe_load(Path("live.yaml").read_text())["pods"]}
    assert (ages["b"], ages["c"]) == (0, 60)


def test_a_proxy_is_not_told_what_stays_on_this_machine(
    planner: Command, server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert imported(planner).status == EXIT_DONE
    kubeconfig(Path("config"), server.url, token=SECRET, cluster={"proxy-url": "http://127.0.0.1:1"})
    assert "must be https where credentials are sent to another machine" in imported(planner).err


def test_nothing_secret_is_written_or_printed(planner: Command, server: ApiServer) -> None:
    done = imported(planner)
    server.token = "another"
    refused = imported(planner)
    assert refused.status == EXIT_BAD_INPUT
    assert "got HTTP 401" in refused.err
    written = "".join(path.read_text() for path in Path().iterdir() if path.name not in ("config", "config.token"))
    assert SECRET not in done.out + done.err + refused.out + refused.err + written
    assert SECRET not in repr(kubernetes_at("test", Path("config")))


def test_of_a_group_the_version_that_has_the_kind_is_read(server: ApiServer) -> None:
    """Another operator's kinds make v1 the version that group nvidia.com prefers."""
    server.kinds = (OPERATOR, *server.kinds)
    server.apply({"kind": "DynamoGraphDeployment", "metadata": {"name": "graph"}, "spec": {}})
    graphs = [resource for resource in RESOURCES if resource.kind == "DynamoGraphDeployment"]
    (graph,) = kubernetes_at("test", Path("config")).read(graphs).documents()
    assert (graph["kind"], graph["apiVersion"], graph["metadata"]["namespace"]) == (
        "DynamoGraphDeployment",
        "nvidia.com/v1alpha1",
        "default",
    )
    tried = [asked.path for asked in server.requests if asked.resource]
    assert tried == [f"/apis/nvidia.com/{version}/dynamographdeployments" for version in ("v1", "v1alpha1")]
    assert "Secret" not in {resource.kind for resource in RESOURCES}


def test_more_than_can_be_read_is_refused(planner: Command, server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server.page = 1
    for name, limit, words in (
        ("MOST_ITEMS", 2, "2 objects"),
        ("MOST_PAGES", 1, "1 pages"),
        ("MOST_OF_A_LIST", 99, "0 MiB"),
        ("PAGE", 500, ""),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(api_sessions, name, limit)
            refused = imported(planner)
        assert refused.status == (EXIT_BAD_INPUT if words else EXIT_DONE)
        assert f"must have at most {words}" in refused.err if words else Path("live.yaml").exists()


def answering(status: int, body: bytes, **headers: str) -> Any:
    """A server that always answers so; the headers that came are kept."""
    from http.server import BaseHTTPRequestHandler, HTTPServer

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.server.seen.append(self.headers.get("Authorization", ""))  # type: ignore[attr-defined]
            self.send_response(status)
            for key, text in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(key.replace("_", "-"), text)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_args: object) -> None:
            """Nothing is printed."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    server.seen = []  # type: ignore[attr-defined]
    return server


@pytest.mark.parametrize(
    ("status", "body", "kind", "words"),
    [
        (200, b"<html>", "text/html", "must be a Kubernetes API server"),
        (200, b"{}", "application/json", "must be a Kubernetes API server"),
        (200, b'{"kind": "NodeList", "items": 3}', "application/json", "items must be"),
        (200, b"{", "application/json", "is not readable JSON"),
        (404, b"", "text/plain", "got HTTP 404"),
        (429, b"", "text/plain", "must answer /api/v1/nodes, got HTTP 429"),
    ],
)
def test_what_is_no_api_server_is_told(planner: Command, status: int, body: bytes, kind: str, words: str) -> None:
    from threading import Thread

    with answering(status, body, Content_Type=kind) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        kubeconfig(Path("config"), f"http://127.0.0.1:{server.server_address[1]}")
        refused = imported(planner)
        server.shutdown()
    assert refused.status == EXIT_BAD_INPUT, refused.out
    assert words in refused.err
    assert not Path("live.yaml").exists()


def test_who_is_sent_elsewhere_does_not_go(planner: Command, server: ApiServer) -> None:
    from threading import Thread

    with answering(302, b"", Location=f"{server.url}/api/v1/nodes") as other:
        Thread(target=other.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        kubeconfig(Path("config"), f"http://127.0.0.1:{other.server_address[1]}", token=SECRET)
        refused = imported(planner)
        other.shutdown()
    assert refused.status == EXIT_BAD_INPUT
    assert "got HTTP 302" in refused.err
    assert other.seen == [f"Bearer {SECRET}"]
    assert server.requests == []


def test_certificates_are_checked(planner: Command, server: ApiServer) -> None:
    tls, authority = certificate(Path())
    with ApiServer(token=SECRET, objects=server.objects).serving(tls) as secure:
        kubeconfig(Path("config"), secure.url, token=SECRET)
        refused = imported(planner)
        assert refused.status == EXIT_BAD_INPUT
        assert "certificate verify failed" in refused.err
        assert secure.requests == []
        kubeconfig(Path("config"), secure.url, token=SECRET, cluster={"certificate-authority": str(authority)})
        assert "NOT checked" not in imported(planner).err
        kubeconfig(Path("config"), secure.url, token=SECRET, cluster={"insecure-skip-tls-verify": True})
        with pytest.warns(match="Unverified HTTPS request"):
            told = imported(planner)
        assert told.status == EXIT_DONE
        assert "--kubernetes test: the server's certificate is NOT checked" in told.err


def test_nobody_there(planner: Command) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        kubeconfig(Path("config"), f"http://127.0.0.1:{probe.getsockname()[1]}")
        refused = imported(planner)
    assert refused.status == EXIT_BAD_INPUT
    assert "must answer, got:" in refused.err
    assert "refused" in refused.err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("users: [{name: u, user: {token: tell-nobody}\n", "must be a kubeconfig"),
        ("contexts: tell-nobody\n", "must be a kubeconfig"),
        ("users: [{name: u, user: tell-nobody}]\n", "must be a kubeconfig"),
        ("users: [{user: {token: tell-nobody}}]\n", "must be a kubeconfig"),
        ("- tell-nobody\n", "must be a kubeconfig"),
        (
            "contexts: [{name: test, context: {cluster: c, user: u}}]\nusers: [{name: u, token: tell-nobody}]\n"
            "clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\n",
            "its credentials must be usable, reading them failed: ConfigException.",
        ),
        ("contexts: []\n", "must be a context of config, got 'test'. There are: none."),
        ("contexts: [{name: test, context: {cluster: c}}]\n", "must have a server as https://10.0.0.1:6443"),
        (
            "contexts: [{name: test, context: {cluster: c}}]\n"
            "clusters: [{name: c, cluster: {server: 'https://me:tell-nobody@127.0.0.1'}}]\n",
            "without user and password",
        ),
    ],
)
def test_kubeconfigs_that_lead_nowhere(planner: Command, text: str, words: str) -> None:
    Path("config").write_text(text)
    refused = imported(planner)
    assert refused.status == EXIT_BAD_INPUT
    assert words in refused.err
    assert SECRET not in refused.err


@pytest.mark.parametrize(
    ("user", "url", "words"),
    [
        ({"token": SECRET}, "http://kubernetes.example:8080", "must be https where credentials are sent"),
        ({"username": "me", "password": SECRET}, "http://kubernetes.example:8080", "must be https where credentials"),
        ({"token": f"{SECRET}\nX-Evil: 1"}, "http://127.0.0.1:1", "its token must be one word"),
        ({"token": f"{SECRET}\u00e9"}, "http://127.0.0.1:1", "its token must be one word"),
        ({"tokenFile": "nowhere"}, "http://127.0.0.1:1", "its credentials must be usable"),
        ({"client-certificate-data": SECRET}, "https://127.0.0.1:1", "its credentials must be usable"),
        ({"token": 5}, "http://127.0.0.1:1", "must answer"),
        (
            {"exec": {"command": "./plugin", "apiVersion": "client.authentication.k8s.io/v1"}},
            "http://127.0.0.1:1",
            "its credential plugin plugin must give a token or a certificate, gave none",
        ),
    ],
)
def test_credentials_that_cannot_be_used(planner: Command, user: dict[str, Any], url: str, words: str) -> None:
    Path("plugin").write_text(f"#!/bin/sh\necho {SECRET} >&2\nexit 1\n")
    Path("plugin").chmod(0o755)
    kubeconfig(Path("config"), url, user=user)
    refused = imported(planner)
    assert refused.status == EXIT_BAD_INPUT
    assert words in refused.err
    assert SECRET not in refused.err


def test_what_a_plugin_says_is_not_shown() -> None:
    """In a process of its own, where nobody else listens to the client's log."""
    Path("plugin").write_text(f"#!/bin/sh\necho {SECRET} >&2\nexit 1\n")
    Path("plugin").chmod(0o755)
    plugin = {"command": "./plugin", "apiVersion": "client.authentication.k8s.io/v1"}
    kubeconfig(Path("config"), "http://127.0.0.1:1", user={"exec": plugin})
    code = (
        "from planner.runs.live.kubernetes import *; from planner.runs.live.api_resources import RESOURCES; "
        "kubernetes_at('test', Path('config')).read(RESOURCES)"
    )
    done = subprocess.run((sys.executable, "-c", code), capture_output=True, text=True, check=False, timeout=60)
    assert "its credential plugin plugin must give" in done.stderr
    assert SECRET not in done.stdout + done.stderr


def test_a_plugin_gives_the_token(planner: Command, server: ApiServer) -> None:
    credential = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": SECRET},
    }
    Path("plugin").write_text(f"#!/bin/sh\ncat <<'END'\n{json.dumps(credential)}\nEND\n")
    Path("plugin").chmod(0o755)
    plugin = {"command": "./plugin", "apiVersion": "client.authentication.k8s.io/v1"}
    kubeconfig(Path("config"), server.url, user={"exec": plugin})
    assert imported(planner).status == EXIT_DONE


def test_contexts_are_found_as_kubectl_finds_them(
    planner: Command, server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first of several kubeconfigs to name something counts; files that are not there are passed over."""
    monkeypatch.setenv("HOME", str(Path.cwd()))
    flags = ("cluster", "import", "--out", "live.yaml", "--force", "--kubernetes")
    monkeypatch.setenv("KUBECONFIG", "nowhere:config:other")
    kubeconfig(Path("other"), "http://127.0.0.1:1", context="test", current="test")
    assert planner(*flags, "current").status == EXIT_DONE
    kubeconfig(Path("other"), "http://127.0.0.1:1", context="elsewhere", current="elsewhere")
    assert planner(*flags, "current").status == EXIT_DONE
    told = planner(*flags, "prod")
    assert told.status == EXIT_BAD_INPUT
    assert "There are: elsewhere, test." in told.err
    monkeypatch.delenv("KUBECONFIG")
    assert "there is none at ~/.kube/config" in planner(*flags, "current").err
    Path(".kube").mkdir()
    kubeconfig(Path(".kube/config"), server.url, token=SECRET, current="")
    assert "must have a current context" in planner(*flags, "current").err
    assert planner(*flags, "test").status == EXIT_DONE


def test_within_a_pod_its_service_account_is_used(planner: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(Path.cwd()))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    address = kubernetes_at("current").address
    assert (address.url, address.label) == ("https://[::1]:443", "--kubernetes current")
    refused = planner("cluster", "import", "--kubernetes", "current", "--out", "live.yaml")
    assert "its credentials must be usable" in refused.err  # there is no such account here
    with pytest.raises(InputError, match="there must be a kubeconfig"):
        kubernetes_at("prod")


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--kubernetes", "test", "--kubectl", "list.json"), "--kubectl: must be left out with --kubernetes"),
        (("--kubernetes", "test", "--taken-at", TAKEN_AT), "--taken-at: must be left out with --kubernetes"),
        (("--kubeconfig", "config"), "--kubeconfig: goes with --kubernetes alone"),
        (("--kubernetes", "test", "--kubeconfig", "nowhere"), "there is none at nowhere"),
    ],
)
def test_flags_that_do_not_go_together(planner: Command, flags: tuple[str, ...], words: str) -> None:
    kubeconfig(Path("config"), "http://127.0.0.1:1")
    flags = flags if "--kubeconfig" in flags else (*flags, "--kubeconfig", "config")
    refused = planner("cluster", "import", "--out", "live.yaml", *flags)
    assert refused.status == EXIT_BAD_INPUT
    assert words in refused.err


def test_without_the_client_the_extra_is_named(planner: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    kubeconfig(Path("config"), "http://127.0.0.1:1")
    monkeypatch.setattr("planner.runs.live.kubernetes.find_spec", lambda _: None)
    told = imported(planner)
    assert told.status == EXIT_FAILURE
    assert 'pip install "llm-fleet-planner[kubernetes]"' in told.err


def test_the_server_refuses_writes_unless_it_is_told_otherwise(server: ApiServer) -> None:
    """The stand-in, by kubectl: what later tests rely on."""
    kubectl = program("kubectl")
    server.token = ""
    kubeconfig(Path("config"), server.url)
    Path("map.yaml").write_text("{apiVersion: v1, kind: ConfigMap, metadata: {name: m}, data: {a: '1'}}\n")

    def run(*words: str) -> int:
        command = (kubectl, "--kubeconfig", "config", *words)
        environment = {**os.environ, "HOME": "."}
        return subprocess.run(command, capture_output=True, env=environment, check=False, timeout=60).returncode

    apply = ("apply", "--validate=false", "-f", "map.yaml")
    assert run(*apply) != 0
    server.writable = True
    assert run(*apply) == 0
    assert server.objects["ConfigMap", "default", "m"]["data"] == {"a": "1"}
    assert run("delete", "configmap", "m", "--wait=false") == 0
    assert ("ConfigMap", "default", "m") not in server.objects
