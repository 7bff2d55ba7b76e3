"""Which cluster is meant: a context of a kubeconfig as kubectl finds it, or, within a pod, its service account.

What is read here says where the server is and how it is known. Credentials are left to the official client
(`kubernetes.config`), which may run the credential plugin that a kubeconfig names, as kubectl does. No error text
holds what a kubeconfig does: the client's own would show a user's token.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from planner.errors import InputError
from planner.files.disk.documents import read_yaml
from planner.files.kubernetes.kubernetes_objects import below, items_below
from planner.files.sections import Section
from planner.runs.live.addresses import is_here, parts_of

CURRENT = "current"
"""Stands for the current context, and for the service account within a pod."""

USUAL = Path("~/.kube/config")
_POD_HOST, _POD_PORT = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"
INSECURE = (
    "the server's certificate is NOT checked (insecure-skip-tls-verify): whoever stands in between could read the "
    "credentials and alter what was read"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAddress:
    """Where a cluster answers. `context`: of the kubeconfig ("": the service account of the pod that this runs in);
    `paths`: of kubeconfigs, as the variable KUBECONFIG has them; `insecure`: its certificate is not checked; `proxied`:
    the kubeconfig names a proxy; `plugin`: the program that gives credentials ("": none)."""

    url: str
    context: str = ""
    paths: str = ""
    insecure: bool = False
    proxied: bool = False
    plugin: str = ""

    @property
    def label(self) -> str:
        """Names it in errors and notes."""
        return f"--kubernetes {self.context or CURRENT}"

    @property
    def is_encrypted(self) -> bool:
        """Whether what is sent there goes over TLS."""
        return self.url.startswith("https:")

    @property
    def is_this_machine(self) -> bool:
        """Whether what is sent there stays on this machine: a proxy's loopback is another's."""
        return not self.proxied and is_here(urlsplit(self.url).hostname or "")


def find_server(context: str = CURRENT, kubeconfig: Path | None = None) -> ServerAddress:
    """The server of a context. Raises InputError where there is no kubeconfig, no such context, or no usable server."""
    paths = _paths(kubeconfig)
    if not paths:
        if kubeconfig is None and context == CURRENT and os.environ.get(_POD_HOST):
            host = os.environ[_POD_HOST]
            port = os.environ.get(_POD_PORT, "443")
            return ServerAddress(url=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}")
        place = kubeconfig or os.environ.get("KUBECONFIG") or USUAL
        raise InputError(
            f"--kubernetes {context}: there must be a kubeconfig; there is none at {place}.",
            hint="Name one with --kubeconfig FILE, or by the variable KUBECONFIG.",
        )
    documents = [_document(path) for path in paths]
    name = _current(documents) if context == CURRENT else context
    names = sorted({_text(row, "name") for document in documents for row in items_below(document, "contexts")} - {""})
    if name not in names:
        raise InputError(
            f"--kubernetes {context}: must be a context of {', '.join(map(str, paths))}, got {name!r}.",
            hint=f"There are: {', '.join(names) or 'none'}. Give one of them, or `{CURRENT}` for the current one.",
        )
    return _address(documents, name, paths)


def _address(documents: Sequence[Section], name: str, paths: Sequence[Path]) -> ServerAddress:
    context = _entry(documents, "contexts", "context", name)
    cluster = _entry(documents, "clusters", "cluster", _text(context, "cluster"))
    user = _entry(documents, "users", "user", _text(context, "user"))
    url = _text(cluster, "server")
    if parts_of(url) is None or "@" in url:
        raise InputError(
            f"--kubernetes {name}: its cluster in {', '.join(map(str, paths))} must have a server as "
            "https://10.0.0.1:6443, without user and password; it has none.",
            hint="Mend the kubeconfig, or name another context.",
        )
    plugin = _text(user.section("exec"), "command") if "exec" in user and user.holds_section("exec") else ""
    return ServerAddress(
        url=url.rstrip("/"),
        context=name,
        paths=os.pathsep.join(map(str, paths)),
        insecure=bool(cluster.plain().get("insecure-skip-tls-verify")),
        proxied=not cluster.is_empty("proxy-url"),
        plugin=Path(plugin).name,
    )


def _paths(kubeconfig: Path | None) -> list[Path]:
    """Kubeconfigs that there are; of several the first to name something counts."""
    if kubeconfig is not None:
        return [kubeconfig] if kubeconfig.exists() else []
    listed = os.environ.get("KUBECONFIG", "")
    names = [Path(name) for name in listed.split(os.pathsep) if name] or [USUAL]
    return [path.expanduser() for path in names if path.expanduser().exists()]


def _document(path: Path) -> Section:
    with _without_values(path):
        document = read_yaml(path)
        for key, inner in (("contexts", "context"), ("clusters", "cluster"), ("users", "user")):
            for row in items_below(document, key):
                row.text("name")
                below(row, inner)
    return document


@contextmanager
def _without_values(path: Path) -> Iterator[None]:
    """Errors that hold nothing of the file, but where it is wrong."""
    try:
        yield
    except InputError as error:
        if "cannot be read" in error.message or "no such file" in error.message:
            raise
        where = error.message.removeprefix(f"{path}: ").partition(":")[0]
        place = f" (see {where})" if where.startswith("line ") else ""
        raise InputError(
            f"{path}: must be a kubeconfig: YAML with clusters, contexts and users by name; it is not{place}.",
            hint="Look with `kubectl config view`.",
        ) from None


def _entry(documents: Sequence[Section], key: str, inner: str, name: str) -> Section:
    """What the first entry of a name holds; an empty section where there is none."""
    rows = (row for document in documents for row in items_below(document, key) if name and _text(row, "name") == name)
    entry = next(rows, None)
    return Section({}, file="") if entry is None else below(entry, inner)


def _current(documents: Sequence[Section]) -> str:
    names = [name for document in documents if (name := _text(document, "current-context"))]
    if not names:
        raise InputError(
            f"--kubernetes {CURRENT}: the kubeconfig must have a current context; it has none.",
            hint="Name a context, or choose one with `kubectl config use-context`.",
        )
    return names[0]


def _text(section: Section, key: str) -> str:
    return section.text(key) if section.holds_text(key) else ""
