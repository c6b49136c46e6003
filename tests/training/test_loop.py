"""What the loop of learning tells beside its progress bar."""

import logging

import numpy as np

import ordinalrbm as orbm


def test_every_epoch_is_logged(caplog):
    users, items = np.divmod(np.arange(60), 6)
    with caplog.at_level(logging.INFO, logger="ordinalrbm"):
        model = orbm.OrdinalMF(2, n_epochs=3, random_state=0).fit((users, items, 1 + items % 3))
    told = [line.getMessage() for line in caplog.records if line.name.endswith("loop")]
    values = model.history_["validation"]
    assert told == [f"epoch {k + 1} of at most 3, validation {value:.4f}" for k, value in enumerate(values)]
