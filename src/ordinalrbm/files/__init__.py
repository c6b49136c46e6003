"""From a file to answers: what it holds, what its columns mean, and back into a file.

``formats`` reads a file into a ``Source`` (``delimited`` and ``statistical`` do so for CSV and for
SPSS and Stata, ``arrow`` keeps whole numbers exact), ``proposal`` says what its columns probably
are, with the words of ``vocabulary`` and the numbers of ``ranges``, ``schema`` is where people
correct that, ``survey`` applies it, ``writing`` goes back, ``ratings`` reads rating data,
``guess`` recognises it under other names, ``side_tables`` reads what is known of users and items,
and ``showing`` prints a proposal.
"""
