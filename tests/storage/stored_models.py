"""Tiny models of every kind, and ways to change their files with and without valid checksums."""

import json
import tempfile
from functools import cache
from hashlib import blake2b
from pathlib import Path

import numpy as np
import pandas as pd

import ordinalrbm as orbm
from ordinalrbm.storage import container, model_file

FILES = Path(__file__).parent / "files"


def answers():
    """Twelve people, four questions on scales of different lengths, some gaps."""
    rng = np.random.default_rng(0)
    table = np.column_stack([rng.integers(1, 1 + n, 12) for n in (2, 3, 5, 4)]).astype(float)
    table[:4] = [[1, 1, 1, 1], [2, 2, 2, 2], [1, 3, 5, 4], [2, 1, 4, 3]]
    table[[5, 7, 8], [0, 2, 3]] = np.nan
    return pd.DataFrame(table, columns=["smokes", "Stadt", "größe", "mood"])


def answers_of_all_kinds():
    """The same people with a nominal question, a number, and a background."""
    table = answers()
    table["party"] = np.resize(["red", "green", "blue"], len(table))
    table["income"] = np.linspace(1.0, 9.0, len(table)) ** 2
    table["region"] = np.resize(["north", "south"], len(table))
    return table


def ratings(*, text=True):
    """Eight people, six items, some not rated."""
    rng = np.random.default_rng(1)
    user, item = np.divmod(np.arange(48), 6)
    kept = rng.random(48) < 0.8
    kept[:6] = True
    frame = pd.DataFrame({"user": user, "item": item, "rating": 1 + (user + item) % 4})[kept]
    if text:
        frame["user"] = "u" + frame["user"].astype(str)
        frame["item"] = "ü" + frame["item"].astype(str)
    return frame


OWN = {"ü0": [1, 2, 3, 4, 5], "ü3": [4, 3, 2, 1]}
FEW = {"n_epochs": 2, "random_state": 0}


# How each model is made; two have scales per item, two have ids that are numbers.
MAKERS = {
    "vector": lambda: orbm.CumulativeRBM.binary(2, response_styles=3, units_per_factor=4, **FEW).fit(
        answers()
    ),
    "ordinal_mf": lambda: orbm.OrdinalMF(4, item_scales=OWN, **FEW).fit(ratings()),
    "sampled": lambda: orbm.OrdinalMF(3, posterior="sampled", n_draws=3, n_epochs=9, random_state=0).fit(
        ratings()
    ),
    "matrix_crbm": lambda: _matrix().fit(ratings(text=False)),
    "gaussian_mf": lambda: orbm.GaussianMF(2, **FEW).fit(ratings(text=False)),
    "multinomial_rbm": lambda: orbm.MultinomialRBM(2, item_scales=OWN, **FEW).fit(ratings()),
}


# Others that have parts which those do not have; no release has written them down.
MORE_MAKERS = {
    "mixed": lambda: orbm.CumulativeRBM.binary(
        2, nominal=["party"], numeric=["income"], background=["region"], **FEW
    ).fit(answers_of_all_kinds()),
    "point": lambda: orbm.OrdinalMF(2, posterior="point", **FEW).fit(ratings()),
    "featured": lambda: _featured(orbm.OrdinalMF(2, **FEW)),
    "sampled_featured": lambda: _featured(
        orbm.OrdinalMF(2, posterior="sampled", n_draws=3, n_epochs=9, random_state=0)
    ),
}


def _featured(model):
    """Fitted with what is known of users and items beside their ratings."""
    users = pd.DataFrame({"user": [f"u{k}" for k in range(8)], "age": np.arange(8.0) ** 2})
    items = pd.DataFrame({"item": [f"ü{k}" for k in range(6)], "genre": list("aaabbb")})
    return model.fit(ratings(), user_features=users, item_features=items)


def _matrix(**changes):
    return orbm.MatrixCumulativeRBM(2, 2, batch_size=4, **{**FEW, **changes})


@cache
def _made_here():
    return tempfile.TemporaryDirectory(prefix="ordinalrbm-models-")


@cache
def file_of(kind):
    """The stored file of a kind, or one that is made now as long as none of this version is."""
    path = FILES / f"{kind}-{container.VERSION}.orbm"
    if not path.exists():
        path = Path(_made_here().name) / path.name
        (MAKERS | MORE_MAKERS)[kind]().save(path)
    return path


def said(model):
    """All that a model says when asked this and that, as arrays."""
    if isinstance(model, orbm.CumulativeRBM):
        rows = answers().set_axis(getattr(model, "feature_names_in_", range(4)), axis=1)
        rows = rows if hasattr(model, "feature_names_in_") else rows.to_numpy()
        return [model.transform(rows), *model.predict_proba(rows), model.sample(5, random_state=0)]
    users, items = model.users_.labels, model.items_.labels
    unknown = ["nobody"] if model.users_.is_text else [-7]
    asked = [*items, *(["nothing"] if model.items_.is_text else [-7])]
    found = [model.predict_proba(user, asked) for user in [*users, *unknown]]
    found += [np.asarray(model.predict(users[0], asked, rule=rule)) for rule in ("mean", "mode")]
    found.append(model.recommend("all", n=3)["score"].to_numpy())
    found.append(model.recommend("all", n=3, exclude_seen=False)["score"].to_numpy())
    found.append(model.ratings_.observations.column_view.row)
    return found


def same(one, other):
    """Whether two models say the same."""
    return type(one) is type(other) and all(
        np.array_equal(np.asarray(a), np.asarray(b)) for a, b in zip(said(one), said(other), strict=True)
    )


def rewritten(source, target, change):
    """The file with arrays and header changed by ``change(arrays, header)``, checksums valid."""
    arrays, header = model_file.read(source)
    change(arrays, header)
    model_file.write(target, arrays, header)


def sealed(front, data):
    """Bytes of a file with this (possibly absurd) JSON before its arrays, checksum valid.

    ``front`` is the parsed JSON of a file; its checksum is computed as a writer would.
    """
    text = front["__metadata__"]["ordinalrbm"]
    start = text.find('"checksum": "') + len('"checksum": "')
    front["__metadata__"]["ordinalrbm"] = text[:start] + "0" * 32 + text[start + 32 :]
    content = json.dumps(front, separators=(",", ":")).encode()
    content += b" " * (-len(content) % 8)
    content = len(content).to_bytes(8, "little") + content
    checksum = blake2b(content, digest_size=16).hexdigest().encode()
    return content.replace(b"0" * 32, checksum, 1) + data


def parts(content):
    """The parsed JSON of a file and the bytes of its arrays."""
    end = 8 + int.from_bytes(content[:8], "little")
    return json.loads(content[8:end]), content[end:]
