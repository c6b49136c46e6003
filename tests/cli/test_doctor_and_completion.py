"""What the program says of itself: doctor, completion, and terminals that know little."""

from __future__ import annotations

import importlib
import json

import numpy as np
from program import run, succeed, succeed_here
from typer.testing import CliRunner

from ordinalrbm import cli
from ordinalrbm.cli import warm_up
from ordinalrbm.runtime import jit
from ordinalrbm.vector import posterior


def test_doctor(tmp_path):
    done = succeed_here("doctor", cwd=tmp_path)
    assert "right" in done.stdout and done.stdout.endswith("All is well.\n")
    assert all(len(line) <= 80 for line in done.stdout.splitlines())


def test_doctor_finds_wrong_kernels(monkeypatch):
    sampled = posterior.sampled
    monkeypatch.setattr(posterior, "sampled", lambda *args: 1 - np.asarray(sampled(*args)))
    done = CliRunner().invoke(cli.app, ["doctor", "--json"])
    assert done.exit_code == 1
    assert json.loads(done.stdout)["well"] is False


def test_doctor_tells_who_may_write_the_kernels(monkeypatch, tmp_path):
    module = importlib.import_module("ordinalrbm.cli.doctor")  # cli.doctor is the command
    monkeypatch.setattr(jit, "cache_folder", lambda kernel: str(tmp_path))
    for mode, is_danger in ((0o755, False), (0o777, True)):
        tmp_path.chmod(mode)
        assert ("others may write there" in module._cache()) == is_danger


def test_completion_is_shown(tmp_path):
    # Which shell is used would be found out from the processes above, and tests have none.
    told = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    done = succeed("--show-completion", "bash", cwd=tmp_path, **told)
    assert "_ORDINALRBM_COMPLETE" in done.stdout


def test_completion_of_commands_and_options(tmp_path):
    def complete(words: str, place: int) -> list[str]:
        asked = {"_ORDINALRBM_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(place)}
        return run(cwd=tmp_path, **asked).stdout.split()

    assert complete("ordinalrbm re", 1) == ["recommend", "report"]
    assert "--schema" in complete("ordinalrbm fit --sc", 2)


def test_a_terminal_without_unicode(files):
    done = succeed("info", "survey.orbm", cwd=files, PYTHONIOENCODING="ascii")
    assert "gar nicht" in done.stdout


def test_json_on_a_terminal_without_unicode(files):
    done = CliRunner(charset="ascii").invoke(cli.app, ["info", str(files / "survey.orbm"), "--json"])
    assert done.exit_code == 0 and done.stdout_bytes.isascii()
    assert json.loads(done.stdout)["scales"]["q4"][0] == "gar nicht"


def test_all_that_is_compiled_for_a_device_is_learnt_there():
    models = warm_up.raters("cuda:1")
    assert "OrdinalMF, sampled" in models
    assert {model.device for model in models.values()} == {"cuda:1"}
    assert set(models) < set(warm_up.raters("cpu"))
