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
from ordinalrbm.cli.factors import factors
from ordinalrbm.cli.scores import scores
from ordinalrbm.cli.ask import ask
from ordinalrbm.cli.invariance import invariance
from ordinalrbm.cli.recommend import recommend
from ordinalrbm.cli.explain import explain, similar
from ordinalrbm.cli.forget import forget
from ordinalrbm.cli.serve import serve
from ordinalrbm.cli.evaluate import compare, evaluate
from ordinalrbm.cli.report import report
from ordinalrbm.cli.info import info
from ordinalrbm.cli.doctor import doctor
from ordinalrbm.cli.help import show_help

__all__ = ["app"]
