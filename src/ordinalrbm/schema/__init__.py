"""What the columns of a survey file mean: scales, codes of missing answers, weights, ids.

``infer`` proposes a schema: ``profile`` is what can be seen of a column, ``labels`` weighs what its
labels say by the words of ``vocabulary``, ``known_scales``, ``missing_labels`` and ``quantities``,
and ``batteries`` compares columns with their neighbours. ``schema`` holds the result, ``toml`` is
the file in which people correct it.
"""
