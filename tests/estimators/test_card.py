"""Model cards."""

import numpy as np
import pandas as pd

import ordinalrbm as orbm


def ratings(scale=(1, 2, 3)):
    users, items = np.divmod(np.arange(60), 6)
    return users, items, np.array(scale, dtype=object)[(users + items) % 3]


def sections(card):
    found = {}
    for part in card.split("\n## ")[1:]:
        heading, _, lines = part.partition("\n\n")
        found[heading] = lines.splitlines()
    return found


def test_a_card_says_what_was_learnt_how_and_when():
    frame = pd.DataFrame(dict(zip(("user", "item", "rating"), ratings(), strict=True)))
    frame["date"] = pd.Timestamp("2024-02-28") + pd.to_timedelta(np.arange(60) % 31, "D")
    model = orbm.OrdinalMF(2, n_epochs=2, random_state=7).fit(frame.astype({"rating": int}))
    model.about_ = {"data": "films.csv", "schema": "long", "owner": "us"}
    found = sections(model.card())
    assert list(found) == ["Data", "Settings", "Held-out figures", "Limits", "Written by"]
    assert found["Data"] == [
        "- OrdinalMF, learnt from 60 ratings of 6 items by 10 users (100.0% of all pairs).",
        "- Levels: 1 (33.3%), 2 (33.3%), 3 (33.3%)",
        "- Times: 2024-02-28 to 2024-03-29",
        "- data: films.csv",
        "- owner: us",
    ]
    assert {"- n_factors: 2", "- random_state: 7", "- posterior: variational"} <= set(found["Settings"])
    best = model.best_epoch_
    assert found["Held-out figures"][0] == f"- Epochs of learning: 2; the model is that of epoch {best}."
    assert f"{model.history_['validation'].iloc[best - 1]:.3f}" in found["Held-out figures"][1]


def test_labels_and_notes_are_text_on_their_line():
    model = orbm.OrdinalMF(2, n_epochs=2, scale=["<b>", "so so", "good\n# x"])
    model.fit(ratings(["<b>", "so so", "good\n# x"]))
    model.about_ = {"note": "a\n\n## Limits\nnone"}
    data = sections(model.card())["Data"]
    assert data[1] == "- Levels: &lt;b&gt; (33.3%), so so (33.3%), good # x (33.3%)"
    assert data[2] == "- note: a ## Limits none"
