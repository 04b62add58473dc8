"""Fixtures of several files here."""

import pytest

from imitation import servers


@pytest.fixture
def account():
    """An empty account of the imitation of AWS."""
    servers().reset()
    return servers()
