"""Fixtures of several files: the routers' programs, which `make manifest-tools` gets."""

import pytest
from tools import locations


@pytest.fixture(scope="session")
def router_programs() -> dict[str, list[str]]:
    """The words that start haproxy, sglang-router and vllm-router; run them with `locations.router_environment()`."""
    locations.require("haproxy", "routers")
    return locations.router_programs()
