"""HTTP clients of judges in tests load one root certificate: their servers use plain HTTP, and loading all takes 40 ms each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import certifi
import pytest


@pytest.fixture(scope="session", autouse=True)
def single_root_certificate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Replace the bundle of root certificates by its first one."""
    end = "-----END CERTIFICATE-----\n"
    first = Path(certifi.where()).read_text("utf-8").partition(end)[0] + end
    path = tmp_path_factory.mktemp("certificates") / "one.pem"
    path.write_text(first, "utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(certifi, "where", lambda: str(path))
        yield
