"""Models behind an address: ``ordinalrbm serve``, and the application for servers of your own.

Needs ``pip install "ordinalrbm[serve]"``.
"""

from ordinalrbm.serve.app import Settings, create_app
from ordinalrbm.serve.source import ServedModel

__all__ = ["ServedModel", "Settings", "create_app"]
