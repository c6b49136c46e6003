"""From tables with labels to integer levels and index arrays.

``scales`` turns labels into levels and back, ``tables`` reads the containers users have,
``observations`` is the one in-memory form that everything after this package works on, and
``datasets`` holds the embedded example.
"""
