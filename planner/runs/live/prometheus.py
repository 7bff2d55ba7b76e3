"""A Prometheus that is asked over HTTP, as the user says where: instant queries and nothing else, so it reads alone.

A token comes from a file or the environment, never from the command line, and is sent over TLS or to this machine.
Source of the API: prometheus/docs/querying/api.md.
"""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit
from urllib.request import HTTPSHandler, ProxyHandler, Request, build_opener

from planner import files
from planner.errors import InputError
from planner.files.disk.opening import MOST_OF_A_LIST
from planner.runs.live.addresses import NoRedirects, is_here, secret_of, without_password

TOKEN = "PLANNER_PROMETHEUS_TOKEN"  # noqa: S105  (the name of a variable)
"""The environment's bearer token."""

PATIENCE_S = 30.0
_STATUSES = {400, 422, 503}
"""With which Prometheus sends an answer that says what is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prometheus:
    """Where it answers. `token`: that it asks for; `authorities`: a file of certificates to trust (None: the
    machine's)."""

    url: str
    token: str = field(default="", repr=False)
    authorities: Path | None = None

    def answers(self, queries: Mapping[str, str]) -> dict[str, str]:
        """The text of every answer, by the query's name with the address.

        Raises InputError where nothing answers, it asks for a token, or what answers is no Prometheus.
        """
        return {f"{self.url} ({name})": self._answer(query) for name, query in queries.items()}

    def values(self, query: str) -> tuple[float, ...]:
        """The value of every series that a query gives now. Raises InputError as `answers` and `files.read_values`."""
        return files.read_values(f"{self.url} ({query})", self._answer(query))

    def _answer(self, query: str) -> str:
        address = f"{self.url.rstrip('/')}/api/v1/query?query={quote(query)}"
        request = Request(address, headers={"Accept": "application/json"})  # noqa: S310  (the scheme is checked)
        if self.token:
            request.add_unredirected_header("Authorization", f"Bearer {self.token}")
        # what is sent to this machine stays on it, whatever proxies the environment names
        proxies = ProxyHandler({} if is_here(urlsplit(self.url).hostname or "") else None)
        opener = build_opener(NoRedirects, HTTPSHandler(context=self._trusted()), proxies)
        try:
            with opener.open(request, timeout=PATIENCE_S) as response:
                return self._read(response.read(MOST_OF_A_LIST + 1))
        except HTTPError as error:
            with error:
                if error.code in _STATUSES:
                    return self._read(error.read(MOST_OF_A_LIST + 1))
            raise self._refused(error.code) from None
        except (URLError, HTTPException, OSError) as error:
            reason = getattr(error, "reason", error)
            raise InputError(
                f"--prometheus {self.url}: must answer within {PATIENCE_S:g} s, got: {reason}.",
                hint="Check the address, and that the port is forwarded: "
                "`kubectl port-forward service/prometheus 9090`.",
            ) from None

    def _trusted(self) -> ssl.SSLContext:
        try:
            return ssl.create_default_context(cafile=None if self.authorities is None else str(self.authorities))
        except (OSError, ssl.SSLError) as error:
            raise InputError(
                f"--ca-file {self.authorities}: must hold certificates in PEM, got: {error.strerror or error}.",
                hint="Name the bundle that signs Prometheus' certificate.",
            ) from None

    def _read(self, content: bytes) -> str:
        if len(content) > MOST_OF_A_LIST:
            raise InputError(
                f"--prometheus {self.url}: an answer must be of at most {MOST_OF_A_LIST:,} bytes, is larger.",
                hint="Ask a Prometheus that holds the metrics of one deployment.",
            )
        return content.decode("utf-8", errors="replace")

    def _refused(self, status: int) -> InputError:
        if status in {401, 403}:
            given = "refused the token" if self.token else "asks for a token"
            return InputError(
                f"--prometheus {self.url}: must let the query through, {given} (HTTP {status}).",
                hint=f"Set {TOKEN}, or name a file with --token-file.",
            )
        return InputError(
            f"--prometheus {self.url}: must answer /api/v1/query, got HTTP {status}.",
            hint="Give the address at which Prometheus' own pages begin, as http://localhost:9090.",
        )


def prometheus_at(url: str, token_file: Path | None = None, authorities: Path | None = None) -> Prometheus:
    """The Prometheus at an address. Raises InputError for one that is none, tells a password, or would have a token
    sent in the clear."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise InputError(
            f"--prometheus: must be an address as http://localhost:9090, got {without_password(url)!r}.",
            hint="Give scheme, host and port.",
        )
    if parts.username is not None or parts.password is not None:
        raise InputError(
            "--prometheus: must hold no user and no password, which would be kept in histories, got one.",
            hint=f"Set {TOKEN}, or name a file with --token-file.",
        )
    token = secret_of(TOKEN, token_file, "--token-file")
    if token and parts.scheme == "http" and not is_here(parts.hostname):
        raise InputError(
            f"--prometheus {url}: must be https where a token is sent to another machine, got http.",
            hint="Use https, or forward the port to this machine.",
        )
    return Prometheus(url=url, token=token, authorities=authorities)
