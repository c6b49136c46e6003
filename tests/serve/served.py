"""Models that are served in tests: small files of every kind, and a client in the same process."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient

from ordinalrbm.serve import ServedModel, Settings, create_app

FILES = Path(__file__).parents[1] / "storage" / "files"
RATINGS = ("ordinal_mf", "gaussian_mf", "sampled", "matrix_crbm")
TOKEN = "a-token-of-the-tests"
ALLOWED = {"Authorization": f"Bearer {TOKEN}"}


def file_of(kind: str, folder: Path, name: str = "model.orbm") -> Path:
    return Path(shutil.copy(FILES / f"{kind}-2.0.orbm", folder / name))


def client_of(*served: ServedModel, **settings: Any) -> TestClient:
    """A client of an application that does not look at its files by itself."""
    app = create_app(served, Settings(**{"token": TOKEN, "watch": 0.0, **settings}))
    return TestClient(app, raise_server_exceptions=False)


def asked(client: TestClient, path: str, **request: Any) -> Any:
    answer = client.post(path, json=request, headers=ALLOWED)
    assert answer.status_code == 200, answer.text
    return answer.json()


def refused(client: TestClient, path: str, status: int = 422, **request: Any) -> str:
    answer = client.post(path, json=request, headers=ALLOWED)
    assert answer.status_code == status, answer.text
    assert list(answer.json()) == ["error"]
    return answer.json()["error"]
