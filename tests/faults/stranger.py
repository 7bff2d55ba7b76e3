"""Another user of the machine, as a process of its own: `stranger.py SECONDS MARK PORT…` tries to make whoever listens
at those ports of 127.0.0.1 write the file MARK, and prints what each try came to, as JSON. SECONDS: its patience.

A client without TLS, one that speaks TLS and shows no certificate, one that shows a certificate of its own; both take
any certificate of the other side. As a client to a scheduler, as a scheduler to a worker, and by HTTP for a page.
"""

import asyncio
import json
import ssl
import sys
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import dask
from distributed import Client, Security, rpc
from distributed.protocol.pickle import dumps

PATIENCE_S = float(sys.argv[1])
NOT_FOUND = 404
PAGES = ("health", "metrics", "json/counts.json", "info/main/workers.html", "status")
dask.config.set({"distributed.comm.timeouts.connect": f"{PATIENCE_S}s"})


class Careless(Security):  # type: ignore[misc]  # the library is not typed
    """Speaks TLS with anybody; `certified`: and shows a certificate that it made itself."""

    def __init__(self, *, certified: bool) -> None:
        super().__init__()
        own = Security.temporary().get_connection_args("client")["ssl_context"]
        self.context = own if certified else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.context.check_hostname, self.context.verify_mode = False, ssl.CERT_NONE

    def get_connection_args(self, role: str) -> dict[str, object]:
        """As of any client, with that."""
        return {**super().get_connection_args(role), "ssl_context": self.context}


async def submit(address: str, security: Security, mark: str) -> str:
    """A function handed to a scheduler, for its workers."""
    async with Client(address, security=security, asynchronous=True, timeout=PATIENCE_S) as client:
        return str(await client.submit(Path(mark).write_text, address, pure=False))


async def run(address: str, security: Security, mark: str) -> str:
    """A function handed to a worker, as the scheduler would."""
    async with rpc(address, connection_args=security.get_connection_args("client")) as other:
        answer = await other.run(function=dumps(Path(mark).write_text), args=dumps((address,)))
        assert answer["status"] == "OK", answer
        return "ran"


async def identify(address: str, security: Security, _mark: str) -> str:
    """Who listens there."""
    async with rpc(address, connection_args=security.get_connection_args("client")) as other:
        return str((await other.identity())["type"])


async def page(port: str) -> str:
    """The first page that is shown."""
    for path in PAGES:
        try:
            with await asyncio.to_thread(urlopen, f"http://127.0.0.1:{port}/{path}", timeout=PATIENCE_S) as answer:
                return f"{path}: {answer.status}"
        except HTTPError as error:
            if error.code != NOT_FOUND:
                return f"{path}: {error.code}"
    raise FileNotFoundError("no page")


async def tried(name: str, attempt: "asyncio.Future[str]") -> tuple[str, str | None]:
    """The name of a try and what it came to; None: refused."""
    try:
        return name, await asyncio.wait_for(attempt, 2 * PATIENCE_S)
    except Exception as error:  # noqa: BLE001  # each way to be refused
        sys.stderr.write(f"{name}: {type(error).__name__}: {error}\n")
        return name, None


async def main(mark: str, ports: list[str]) -> None:
    """Every try at every port, side by side."""
    ways = {"tcp": Security(), "tls": Careless(certified=False), "tls with my key": Careless(certified=True)}
    attempts = [
        tried(f"{attempt.__name__} by {way} at {port}", attempt(f"{way[:3]}://127.0.0.1:{port}", security, mark))
        for port in ports
        for way, security in ways.items()
        for attempt in (identify, run, submit)
    ]
    attempts += [tried(f"page at {port}", page(port)) for port in ports]
    sys.stdout.write(json.dumps(dict(await asyncio.gather(*attempts))))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[2], sys.argv[3:]))
