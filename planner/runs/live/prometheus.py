"""A Prometheus that is asked over HTTP, as the user says where: instant queries and nothing else, so it reads alone.

Source of the API: prometheus/docs/querying/api.md.
"""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from planner import files
from planner.errors import InputError
from planner.files.disk.opening import MOST_OF_A_LIST
from planner.runs.live.addresses import HttpServer, Secret, require_address

TOKEN = "PLANNER_PROMETHEUS_TOKEN"  # noqa: S105  (the name of a variable)
"""The environment's bearer token."""

PATIENCE_S = 30.0
_SECRET = Secret(noun="token", variable=TOKEN, option="--token-file")
_STATUSES = {200, 400, 422, 503}
"""With which Prometheus sends an answer, be it that it says what is wrong."""


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
        server = HttpServer(
            option="--prometheus",
            url=self.url,
            secret=_SECRET,
            word=self.token,
            hint="Check the address, and that the port is forwarded: `kubectl port-forward service/prometheus 9090`.",
        )
        address = f"{self.url.rstrip('/')}/api/v1/query?query={quote(query)}"
        status, text = server.get(address, patience_s=PATIENCE_S, most_bytes=MOST_OF_A_LIST, trusted=self._trusted())
        if status not in _STATUSES:
            raise InputError(
                f"{server.label}: must answer /api/v1/query, got HTTP {status}.",
                hint="Give the address at which Prometheus' own pages begin, as http://localhost:9090.",
            )
        return text

    def _trusted(self) -> ssl.SSLContext:
        try:
            return ssl.create_default_context(cafile=None if self.authorities is None else str(self.authorities))
        except (OSError, ssl.SSLError) as error:
            raise InputError(
                f"--ca-file {self.authorities}: must hold certificates in PEM, got: {error.strerror or error}.",
                hint="Name the bundle that signs Prometheus' certificate.",
            ) from None


def prometheus_at(url: str, token_file: Path | None = None, authorities: Path | None = None) -> Prometheus:
    """The Prometheus at an address. Raises InputError for one that is none, tells a password, or would have a token
    sent in the clear."""
    token = _SECRET.word(token_file)
    require_address("--prometheus", url, "http://localhost:9090", _SECRET, token)
    return Prometheus(url=url, token=token, authorities=authorities)
