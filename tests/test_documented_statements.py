"""What README and docs say in words agrees with the code.

Figures are in test_documented_figures.py.
"""

import inspect
import re
from pathlib import Path

import ordinalrbm as orbm
from ordinalrbm.engine import mean_field, ordinal_gibbs, rated_sets
from ordinalrbm.estimators.ratings import RatingModel
from ordinalrbm.matrix import draws, feature_priors, gibbs_learner, gibbs_sampler, update

ROOT = Path(__file__).resolve().parents[1]
RATING_MODELS = (orbm.OrdinalMF, orbm.GaussianMF, orbm.MatrixCumulativeRBM, orbm.MultinomialRBM)


def source_of(page):
    path = ROOT / "README.md" if page == "README" else ROOT / "docs" / f"{page}.md"
    return path.read_text(encoding="utf-8")


def text_of(page):
    """A page as one line, so that where its lines end does not matter."""
    return " ".join(source_of(page).split())


def takes(call, name):
    return name in inspect.signature(call).parameters


def test_the_guide_says_which_models_can_be_updated():
    can = {m.__name__ for m in RATING_MODELS if m._update is not RatingModel._update}
    (sentence,) = re.findall(r"[^.:|]*`update` and `vectors`[^.]*\.", text_of("recommender"))
    assert {m.__name__ for m in RATING_MODELS if m.__name__ in sentence} == can, sentence


def test_the_guide_says_per_model_what_becomes_of_held_out_ratings():
    learns = {m.__name__ for m in RATING_MODELS if takes(m, "refit")}
    (sentence,) = re.findall(r"[^.]* learns from them in the end", text_of("evaluation"))
    assert {m.__name__ for m in RATING_MODELS if f"`{m.__name__}`" in sentence} == learns


def test_the_mathematics_has_the_numbers_of_the_code():
    words = {2: "two", 4: "fourth", 5: "five"}
    rounds, more = words[update._ROUNDS], words[update._MORE_ROUNDS]
    least, most = gibbs_learner._BURN_IN, gibbs_learner._MOST_BURN_IN
    degrees, scale = gibbs_sampler._DEGREES, gibbs_sampler._SCALE
    said = [
        f"{draws._AVERAGED} sweeps of its own, after {draws._DROPPED} that are dropped",
        f"{rounds} rounds, or {more} if the new ratings are more than {100 * update._MANY:.0f} %",
        f"The first {least} sweeps are dropped",
        f"R-hat of at most {gibbs_learner._NO_TREND}",
        f"At most {most} are dropped",
        f"({least} to {most}, and 2 for each of 160 draws)",
        f"Of every {gibbs_learner._PER_PAIR} after that two neighbours are kept",
        rf"\hat{{\tilde p}} - {ordinal_gibbs.OVERRELAXED}\,",
        rf"{{n / \sqrt{{n + {rated_sets.FEW:.0f}}}}}",
        f"at most {rated_sets._MOST_RATERS} of them",
        f"as if it were {rated_sets._ALL_COUNT_AS:.0f} raters",
        f"ridge of {feature_priors.TABLE_RIDGE:.0f} instead of {feature_priors.RIDGE:.0f}",
        f"F + {degrees:.0f}",
        rf"1 / ({2 * degrees:.0f} \cdot {scale}^2)",
        f"half-t with {degrees:.0f} degrees of freedom and scale {scale}",
        f"half-normal with scale {gibbs_sampler._RIDGE_SCALE:.0f}",
        f"half-normal with scale {gibbs_sampler._WIDTH_SCALE}",
        f"smaller than {gibbs_sampler._LEAST_DEVIATION}",
    ]
    page = text_of("mathematics-matrix")
    assert [sentence for sentence in said if sentence not in page] == []
    every = words[mean_field._EXTRAPOLATE_EVERY]
    assert f"In every {every} round" in text_of("mathematics-vector")


def test_every_warning_is_explained():
    """By a few words of each sentence that the source warns with."""
    source = Path(orbm.__file__).parent
    n_calls = sum(len(re.findall(r"warnings\.warn\(", path.read_text())) for path in source.rglob("*.py"))
    rows = re.findall(r"^\| (?!The sentence|---).*", source_of("warnings"), re.M)
    assert len(rows) == n_calls, "a warning was added or removed: see docs/warnings.md"
