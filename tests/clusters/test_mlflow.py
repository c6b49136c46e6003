"""Models in a real MLflow: saved, registered, and served by its server."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request

import numpy as np
import pandas as pd
import pytest
from long_form import only_long
from one_process import environment, model

import ordinalrbm as orbm
from ordinalrbm import mlflow as flavor

mlflow = pytest.importorskip("mlflow")
pytestmark = [
    only_long,
    pytest.mark.filterwarnings("ignore"),  # of what MLflow imports
    pytest.mark.filterwarnings("error:::ordinalrbm"),
]
PAIRS = pd.DataFrame({"user": ["ü1", "ü2", "nobody"], "item": [3, 4, 5]})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mlflow") / "films"
    flavor.save_model(model(), str(folder))
    return folder


def test_the_folder_holds_a_card_and_no_pickle(folder):
    held = {path.name for path in folder.rglob("*") if path.is_file()}
    assert {"MLmodel", "model.orbm", "card.md"} <= held
    assert not any(name.endswith((".pkl", ".pickle")) for name in held)
    assert (folder / "data" / "ordinalrbm" / "card.md").read_text(encoding="utf-8") == model().card()


def test_what_is_loaded_predicts_as_before(folder):
    served = mlflow.pyfunc.load_model(str(folder))
    for rule in ("mean", "mode"):
        truth = model().predict(PAIRS["user"], PAIRS["item"], rule)
        np.testing.assert_array_equal(served.predict(PAIRS, params={"rule": rule}), truth)
    assert flavor.load_model(str(folder)).recommend("ü1").equals(model().recommend("ü1"))


def test_requirements_can_be_given_in_each_way(tmp_path):
    for name, value in [("pip_requirements", ["numpy"]), ("extra_pip_requirements", ["numpy"])]:
        flavor.save_model(model(), str(tmp_path / name), **{name: value})
        assert "numpy" in (tmp_path / name / "requirements.txt").read_text()


def test_a_survey_is_loaded_likewise(tmp_path):
    table = orbm.datasets.load_food_world_cup().iloc[:300, :5]
    survey = orbm.CumulativeRBM(2, n_epochs=2, random_state=0).fit(table)
    flavor.save_model(survey, str(tmp_path / "food"))
    assert mlflow.pyfunc.load_model(str(tmp_path / "food")).predict(table).equals(survey.predict(table))


def test_a_logged_model_is_registered(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/mlflow.db")
    with mlflow.start_run():
        info = flavor.log_model(model(), registered_model_name="films")
    for uri in (info.model_uri, "models:/films/1"):
        assert flavor.load_model(uri).predict("ü1", 3) == model().predict("ü1", 3)


def test_it_is_served_by_mlflow(folder):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "mlflow", "models", "serve", "-m", str(folder), "-p", str(port)]
    command += ["--env-manager", "local", "-h", "127.0.0.1"]
    own = {**os.environ, **environment()}
    own["PATH"] = f"{os.path.dirname(sys.executable)}{os.pathsep}{own['PATH']}"
    server = subprocess.Popen(
        command, env=own, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        asked = {"dataframe_records": PAIRS.to_dict("records"), "params": {"rule": "mode"}}
        found = _answer(f"http://127.0.0.1:{port}/invocations", asked, server)
    finally:
        if server.poll() is None:
            os.killpg(server.pid, 15)
        server.wait()
    assert found["predictions"] == model().predict(PAIRS["user"], PAIRS["item"], "mode").tolist()


def _answer(address, asked, server):
    body = json.dumps(asked).encode()
    request = urllib.request.Request(address, body, {"Content-Type": "application/json"})
    for _ in range(300):
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            raise AssertionError(error.read().decode()) from error
        except OSError:
            assert server.poll() is None
            time.sleep(1)
    raise AssertionError("the server has not started")
