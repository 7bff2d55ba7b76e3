"""A reading of a Kubernetes API through the official client: GET alone, page by page, within a budget.

Sources: Kubernetes, API concepts (limit, continue, 410 Gone, discovery by /apis) and authorisation (401, 403).
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from urllib.parse import urlencode

from kubernetes.client import ApiClient, Configuration
from kubernetes.client.exceptions import ApiException
from kubernetes.config import load_incluster_config, load_kube_config
from urllib3.exceptions import HTTPError

from planner.errors import InputError, PlannerError
from planner.files.disk.documents import parse_json
from planner.files.disk.opening import MIB, MOST_OF_A_LIST
from planner.files.kubernetes.kubernetes_objects import below, items_below
from planner.files.sections import Section
from planner.runs.live.api_resources import GROUPS_PATH, ApiResource, ServerLists
from planner.runs.live.kubeconfigs import INSECURE, ServerAddress

RBAC_HINT = "`planner cluster rbac` prints a role that lets it; have it applied."

PATIENCE_S = 30.0
PAGE = 500
"""Objects of a page, as kubectl asks for them."""
MOST_ITEMS, MOST_PAGES = 1_000_000, 10_000
"""Of all lists together, and of one: beyond the largest clusters, which have some 150,000 pods."""

_OK, _UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND, _GONE = 200, 401, 403, 404, 410


def read_lists(address: ServerAddress, resources: Sequence[ApiResource]) -> ServerLists:
    """The lists of resources over all namespaces. Raises InputError as `Kubernetes.read`."""
    with _client(address) as client:
        session = _Session(address, client, bytes_left=MOST_OF_A_LIST, items_left=MOST_ITEMS)
        lists = {resource.kind: pages for resource in resources if (pages := session.pages(resource))}
    insecure = ((address.label, INSECURE),) if address.insecure else ()
    return ServerLists(
        lists=lists,
        notes=(*insecure, *session.notes),
        answered_at=session.answered_at,
    )


@contextmanager
def _client(address: ServerAddress) -> Iterator[ApiClient]:
    """The official client with the context's credentials: without redirects, after which a token might go elsewhere."""
    configuration = _configuration(address)
    configuration.retries = False  # neither tries again nor follows
    configuration.refresh_api_key_hook = None
    if address.is_this_machine:
        configuration.proxy = None
    _check_token(address, configuration)
    try:
        client = ApiClient(configuration)
    except ImportError as error:  # of a SOCKS proxy
        raise PlannerError(
            f"{address.label}: its proxy-url needs a library: {error}.", hint="pip install pysocks"
        ) from None
    try:
        yield client
    finally:
        client.close()


def _configuration(address: ServerAddress) -> Configuration:
    """Address and credentials as the official client reads them. A login that it renews is not written back."""
    configuration = Configuration()
    try:
        with _quietly():
            if address.context:
                load_kube_config(address.paths, address.context, configuration, persist_config=False)
            else:
                load_incluster_config(configuration, try_refresh_token=False)
    except Exception as error:  # noqa: BLE001  (of any library of logins; the text may show a token)
        raise InputError(
            f"{address.label}: its credentials must be usable, reading them failed: {type(error).__name__}.",
            hint="Try `kubectl get nodes` with the same context.",
        ) from None
    if address.plugin and not (configuration.api_key or configuration.cert_file):
        raise InputError(
            f"{address.label}: its credential plugin {address.plugin} must give a token or a certificate, gave none.",
            hint="Try `kubectl get nodes` with the same context, which shows what the plugin says.",
        )
    return configuration


@contextmanager
def _quietly() -> Iterator[None]:
    """The client logs a failing plugin's words, which may hold anything, to the terminal: not while this is open."""
    silent, root = logging.NullHandler(), logging.getLogger()
    root.addHandler(silent)
    try:
        yield
    finally:
        root.removeHandler(silent)


def _check_token(address: ServerAddress, configuration: Configuration) -> None:
    """InputError where a token would be sent in the clear to another machine, or is none. A file's last line break is
    no part of it."""
    if "BearerToken" not in configuration.api_key:
        return
    token = str(configuration.api_key["BearerToken"]).strip()
    if not address.is_encrypted and not address.is_this_machine:
        raise InputError(
            f"{address.label}: its server must be https where credentials are sent to another machine, got http.",
            hint="Use https, or forward the port to this machine with `kubectl proxy`.",
        )
    scheme, _, word = token.partition(" ")
    if not word.isascii() or not word.isprintable() or not word or " " in word:
        raise InputError(
            f"{address.label}: its token must be one word of printable characters.",
            hint="Write the token alone into its file.",
        )
    configuration.api_key["BearerToken"] = f"{scheme} {word}"


@dataclass(slots=True)
class _Session:
    """One reading: what is left of the budget, what was noted, and when the server answered last."""

    address: ServerAddress
    client: ApiClient
    bytes_left: int
    items_left: int
    notes: list[tuple[str, str]] = field(default_factory=list)
    answered_at: datetime | None = None
    versions: dict[str, tuple[str, ...]] | None = None

    def pages(self, resource: ApiResource) -> tuple[Section, ...]:
        """All pages of a list; none where the server does not have it, or an optional one may not be listed."""
        for version in self._versions(resource.group) if resource.group else ("v1",):
            path = resource.path(version)
            status, pages = self._list(path)
            if status == _GONE:  # it expired while it was read: begun anew, once
                status, pages = self._list(path)
            if status == _FORBIDDEN:
                self._note_forbidden(resource)
                return ()
            if status == _OK:
                return pages
            if status != _NOT_FOUND or not resource.group:
                raise self._refused(path, status)
        return ()

    def _list(self, path: str) -> tuple[int, tuple[Section, ...]]:
        """The status of the last answer, and all pages of a list that was read to its end."""
        pages: list[Section] = []
        token = ""
        for _ in range(MOST_PAGES):
            status, page = self._get(path, {"limit": str(PAGE)} | ({"continue": token} if token else {}))
            if page is None:
                return status, ()
            pages += self._counted(page, path)
            metadata = below(page, "metadata")
            token = "" if metadata.is_empty("continue") else metadata.text("continue")
            if not token:
                return status, tuple(pages)
        raise self._too_large(f"{MOST_PAGES:,} pages of a list")

    def _note_forbidden(self, resource: ApiResource) -> None:
        """InputError where the list is needed."""
        group = f" of {resource.group}" if resource.group else ""
        if resource.needed:
            raise InputError(
                f"{self.address.label}: must be allowed to list {resource.name}{group} everywhere, got HTTP 403.",
                hint=RBAC_HINT,
            )
        self.notes.append((f"{resource.name}{group}", f"could not be listed (HTTP 403): {RBAC_HINT.rstrip('.')}"))

    def _counted(self, page: Section, path: str) -> list[Section]:
        """The page where it holds objects; InputError where it is no list, or there are too many."""
        if not page.text("kind", default="").endswith("List"):
            raise self._no_server(path)
        if page.is_empty("items"):
            return []
        self.items_left -= len(page.entries("items"))
        if self.items_left < 0:
            raise self._too_large(f"{MOST_ITEMS:,} objects")
        return [page]

    def _versions(self, group: str) -> tuple[str, ...]:
        """Of a group, the preferred one first; none where the server does not have it."""
        if self.versions is None:
            status, document = self._get(GROUPS_PATH, {})
            if status == _FORBIDDEN:
                raise InputError(
                    f"{self.address.label}: must be allowed to get {GROUPS_PATH}, got HTTP 403.", hint=RBAC_HINT
                )
            if status != _OK or document is None:
                raise self._refused(GROUPS_PATH, status)
            self.versions = {row.text("name"): _versions_of(row) for row in items_below(document, "groups")}
        return self.versions.get(group, ())

    def _get(self, path: str, query: Mapping[str, str]) -> tuple[int, Section | None]:
        """Status, and the document of a good answer."""
        headers = {"Accept": "application/json", "User-Agent": "llm-fleet-planner"}
        self.client.update_params_for_auth(headers, [], ["BearerToken"], path, "GET", None)
        url = f"{self.address.url}{path}" + (f"?{urlencode(query)}" if query else "")
        try:
            response = self.client.call_api("GET", url, headers, _request_timeout=(PATIENCE_S, PATIENCE_S)).response
            try:
                content = response.read(self.bytes_left + 1)
            finally:
                response.release_conn()
        except (HTTPError, ApiException, OSError) as error:
            raise self._unreachable(error) from None
        self._note_time(response.headers.get("Date", ""))
        self.bytes_left -= len(content)
        if self.bytes_left < 0:
            raise self._too_large(f"{MOST_OF_A_LIST // MIB} MiB")
        if response.status != _OK:
            return response.status, None
        if "json" not in response.headers.get("Content-Type", ""):
            raise self._no_server(path)
        text = content.decode("utf-8", errors="replace")
        return response.status, parse_json(text, file=f"{self.address.label} ({path.rpartition('/')[2]})")

    def _note_time(self, date: str) -> None:
        with suppress(ValueError):
            self.answered_at = parsedate_to_datetime(date).astimezone(UTC)

    def _unreachable(self, error: Exception) -> InputError:
        """The innermost reason: the outer ones repeat the address."""
        reason: object = error
        while isinstance(inner := getattr(reason, "reason", None), Exception | str) and inner:
            reason = inner
        words = " ".join(str(reason).split())
        tls = "certificate" in words.lower() or "ssl" in words.lower()
        hint = (
            "Name the authority that signed it in the kubeconfig (certificate-authority); checking stays on."
            if tls
            else "Check the address in the kubeconfig, and that the network lets you there (a VPN, a tunnel)."
        )
        return InputError(f"{self.address.label}: {self.address.url} must answer, got: {words:.200}.", hint=hint)

    def _refused(self, path: str, status: int) -> InputError:
        if status == _UNAUTHORIZED:
            return InputError(
                f"{self.address.label}: must let the credentials in, got HTTP 401: they are missing, wrong or expired.",
                hint="Log in anew, or take a fresh token: `kubectl create token planner-reader`.",
            )
        if status == _NOT_FOUND or status // 100 == 3:
            return self._no_server(path, f"HTTP {status}")
        return InputError(f"{self.address.label}: must answer {path}, got HTTP {status}.", hint="Ask again in a while.")

    def _no_server(self, path: str, answer: str = "something else") -> InputError:
        return InputError(
            f"{self.address.label}: {self.address.url} must be a Kubernetes API server, which answers {path} with a "
            f"list; got {answer}.",
            hint="Check the server of the context: `kubectl config view`.",
        )

    def _too_large(self, limit: str) -> InputError:
        return InputError(
            f"{self.address.label}: must have at most {limit}, has more.",
            hint="Save the lists that matter with kubectl; `planner cluster import --kubectl FILE` reads them.",
        )


def _versions_of(group: Section) -> tuple[str, ...]:
    preferred = below(group, "preferredVersion")
    first = [preferred.text("version")] if not preferred.is_empty("version") else []
    return tuple(dict.fromkeys([*first, *(row.text("version") for row in items_below(group, "versions"))]))
