"""Servers that a user names by an address, and the secrets that go with them: a secret comes from a file or the
environment, never from the command line, is one word, is sent over TLS or to this machine, and is shown nowhere."""

import os
import ssl
from dataclasses import dataclass, field
from http.client import HTTPException
from ipaddress import ip_address
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.parse import SplitResult, urlsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, ProxyHandler, Request, build_opener

from planner.errors import InputError
from planner.files.disk.opening import read_text


class NoRedirects(HTTPRedirectHandler):
    """Who is sent elsewhere would take the request there, and the secret might follow."""

    def redirect_request(self, *_args: object, **_kwargs: object) -> None:
        """None: it is not followed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """What a server may ask for: called `noun`, of the environment's `variable` or the file that an `option` names."""

    noun: str
    variable: str
    option: str

    @property
    def hint(self) -> str:
        """How it is given."""
        return f"Set {self.variable}, or name a file with {self.option}."

    def word(self, file: Path | None = None) -> str:
        """Of the file, or of the environment where none is named; empty where that is not set.

        Raises InputError for what is no word of printable characters.
        """
        text = os.environ.get(self.variable, "") if file is None else read_text(file)
        word, origin = text.strip(), self.variable if file is None else f"{self.option} {file}"
        if not word.isascii() or not word.isprintable() or " " in word:
            raise InputError(
                f"{origin}: must be one word of printable characters.", hint=f"Write the {self.noun} alone into it."
            )
        return word


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpServer:
    """A server at `url`, as an `option` names it. `word`: of its secret (empty: none); `hint`: how it is reached."""

    option: str
    url: str
    secret: Secret
    word: str = field(default="", repr=False)
    hint: str

    @property
    def label(self) -> str:
        """Names it in errors."""
        return f"{self.option} {self.url}"

    def get(
        self,
        address: str,
        *,
        patience_s: float,
        most_bytes: int,
        trusted: ssl.SSLContext | None = None,
        directly: bool = False,
    ) -> tuple[int, str]:
        """Status and text. `directly`: whatever proxies the environment names, as what is sent to this machine goes.
        InputError where nothing answers, it wants another secret, or the answer is larger than `most_bytes`."""
        request = Request(address, headers={"Accept": "application/json"})  # noqa: S310  (the scheme is checked)
        if self.word:
            request.add_unredirected_header("Authorization", f"Bearer {self.word}")
        proxies = ProxyHandler({} if directly or is_here(urlsplit(self.url).hostname or "") else None)
        opener = build_opener(NoRedirects, HTTPSHandler(context=trusted), proxies)
        try:
            with opener.open(request, timeout=patience_s) as response:
                return response.status, self._text(response.read(most_bytes + 1), most_bytes)
        except HTTPError as error:
            with error:
                if error.code not in {401, 403}:
                    return error.code, self._text(error.read(most_bytes + 1), most_bytes)
            given = f"refused the {self.secret.noun}" if self.word else f"asks for a {self.secret.noun}"
            raise InputError(
                f"{self.label}: must let requests through, {given} (HTTP {error.code}).", hint=self.secret.hint
            ) from None
        except (URLError, HTTPException, OSError) as error:
            reason = getattr(error, "reason", error)
            raise InputError(
                f"{self.label}: must answer within {patience_s:g} s, got: {reason}.", hint=self.hint
            ) from None

    def _text(self, content: bytes, most_bytes: int) -> str:
        if len(content) > most_bytes:
            raise InputError(
                f"{self.label}: an answer must be of at most {most_bytes:,} bytes, is larger.",
                hint="Name a server that serves, or knows of, one deployment.",
            )
        return content.decode("utf-8", errors="replace")


def require_address(option: str, url: str, example: str, secret: Secret, word: str) -> SplitResult:
    """The parts of an address as `example`. Raises InputError for one that is none, tells a password, or would have a
    secret sent in the clear."""
    parts = parts_of(url)
    if parts is None:
        raise InputError(
            f"{option}: must be an address as {example}, got {without_password(url)!r}.",
            hint="Give scheme, host and port.",
        )
    if parts.username is not None or parts.password is not None:
        raise InputError(
            f"{option}: must hold no user and no password, which would be kept in histories, got one.",
            hint=secret.hint,
        )
    if word and parts.scheme == "http" and not is_here(parts.hostname or ""):
        raise InputError(
            f"{option} {url}: must be https where a {secret.noun} is sent to another machine, got http.",
            hint="Use https, or forward the port to this machine.",
        )
    return parts


def parts_of(url: str) -> SplitResult | None:
    """Of an HTTP server's address; None of what is none."""
    try:
        parts = urlsplit(url)
        well_formed = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return None
    return parts if well_formed and url.isprintable() and not (parts.query or parts.fragment) else None


def without_password(url: str) -> str:
    """What may be shown of an address."""
    return url if "@" not in url else f"...@{url.rpartition('@')[2]}"


def is_here(host: str) -> bool:
    """Whether a host is this machine, by its loopback."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
