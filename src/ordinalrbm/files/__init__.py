"""From a file to answers or ratings, and back into a file.

``formats`` reads a file into a ``Source`` (``delimited`` and ``statistical`` do so for CSV and for
SPSS and Stata). ``survey`` applies a schema (:mod:`ordinalrbm.schema`) to it, and ``writing`` goes
back. ``ratings`` reads rating data, ``detect_ratings`` recognises it under other names, and
``feature_tables`` reads what is known of users and items.
"""
