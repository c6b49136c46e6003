"""From a file to answers: what it holds, what its columns mean, and back into a file.

``formats`` reads a file into a ``Source`` (``delimited`` and ``statistical`` do so for CSV and for
SPSS and Stata, ``arrow`` keeps whole numbers exact), ``proposal`` says what its columns probably
are: ``look`` is what is seen of them, ``labelled`` weighs (``evidence``) what labels say by the
words of ``vocabulary``, the scales of ``orders``, the non-answers of ``no_answer`` and the numbers
of ``ranges``. ``schema`` holds the result, ``schema_file`` is where people correct it, with
``rules`` for many columns, and ``showing`` prints it. ``survey`` applies it, ``writing`` goes back,
``ratings`` reads rating data, ``guess`` recognises it under other names, and ``side_tables`` reads
what is known of users and items.
"""
