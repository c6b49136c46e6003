"""What the columns of a survey file mean: scales, codes of missing answers, weights, ids.

``infer`` proposes a schema: ``profile`` is what can be seen of a column, ``labels`` weighs what its
labels say by the words of ``vocabulary`` and ``known_scales``, and ``batteries`` compares columns with
others that have their labels. ``schema`` holds the result, ``toml`` is the file in which people correct it.
"""
