"""Addresses that a user names, and the secrets that go with them: a token comes from a file or the environment, is one
word, and is shown nowhere."""

import os
from ipaddress import ip_address
from pathlib import Path
from urllib.request import HTTPRedirectHandler

from planner.errors import InputError
from planner.files.disk.opening import read_text


class NoRedirects(HTTPRedirectHandler):
    """Who is sent elsewhere would take the request there, and the token might follow."""

    def redirect_request(self, *_args: object, **_kwargs: object) -> None:
        """None: it is not followed."""


def secret_of(variable: str, file: Path | None, option: str) -> str:
    """The word of the file, or of the environment's variable where none is named; empty where that is not set.

    Raises InputError for what is no word of printable characters.
    """
    secret = os.environ.get(variable, "") if file is None else read_text(file)
    secret, named = secret.strip(), variable if file is None else f"{option} {file}"
    if not secret.isascii() or not secret.isprintable() or " " in secret:
        raise InputError(f"{named}: must be one word of printable characters.", hint="Write the token alone into it.")
    return secret


def without_password(url: str) -> str:
    """What may be shown of an address."""
    return url if "@" not in url else f"...@{url.rpartition('@')[2]}"


def is_here(host: str) -> bool:
    """Whether a host is this machine, by its loopback."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
