"""A page served to a small client."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from page_client import HOSTILE, Client

from equifactor import FactorGraph
from equifactor.page.page_server import PageServer
from equifactor.page.viewer import Page, Viewer


@pytest.fixture
def serve() -> Iterator[Callable[[Page], Client]]:
    servers = []

    def start(page: Page) -> Client:
        server = PageServer(Viewer(page))
        server.start()
        servers.append(server)
        return Client(server)

    yield start
    for server in servers:
        server.close()


@pytest.fixture
def network() -> FactorGraph:
    """Return a Bayesian network of three variables with hostile names."""
    return FactorGraph(
        {"rain": ["no", "yes"], "sprinkler\u202e": ["off", "on"], HOSTILE: ["dry", 'wet "very"', "'soaked"]},
        [
            (["rain"], [0.8, 0.2]),
            (["rain", "sprinkler\u202e"], [[0.6, 0.4], [0.99, 0.01]]),
            (
                ["sprinkler\u202e", "rain", HOSTILE],
                [[[1.0, 0.0, 0.0], [0.2, 0.7, 0.1]], [[0.1, 0.8, 0.1], [0.01, 0.09, 0.9]]],
            ),
        ],
    )
