"""From a file to answers or ratings, and back into a file.

``formats`` reads a file into a ``Source`` (``delimited`` and ``statistical`` do so for CSV and for SPSS and
Stata). ``survey`` applies a schema (:mod:`ordinalrbm.schema`) to it, and ``writing`` goes back. ``ratings``
reads rating data and tables of users and items.
"""
