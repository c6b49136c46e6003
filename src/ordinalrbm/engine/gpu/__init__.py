"""The engines on a GPU: Triton kernels, and torch for what is left.

Needs torch and Triton (``pip install "ordinalrbm[gpu]"``); nothing outside this package imports
either. Without a GPU the kernels run, slowly, in Triton's interpreter (``TRITON_INTERPRET=1``, to
be set before the import), which is how they are tested.

Rows are of very unequal length: a film may have 200,000 ratings, and most have few. They are cut
into pieces of at most so many answers (:mod:`ordinalrbm.engine.gpu.pieces`); kernels take a piece
each and leave a partial sum, and the pieces of a row are summed in their order: no atomics, and the
same bits every time.
"""
