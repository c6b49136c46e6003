"""The command line ``ordinalrbm``; importing a command adds it."""

# ruff: noqa: F401
# In the order of --help.
# isort: off
from ordinalrbm.cli.app import app
from ordinalrbm.cli.demo import demo
from ordinalrbm.cli.schema import schema
from ordinalrbm.cli.fit import fit
from ordinalrbm.cli.predict import predict
from ordinalrbm.cli.impute import impute
from ordinalrbm.cli.factors import factors, invariance
from ordinalrbm.cli.scores import ask, scores
from ordinalrbm.cli.recommend import explain, forget, recommend, similar
from ordinalrbm.cli.serve import serve
from ordinalrbm.cli.evaluate import evaluate
from ordinalrbm.cli.report import report
from ordinalrbm.cli.info import info
from ordinalrbm.cli.doctor import doctor

__all__ = ["app"]
