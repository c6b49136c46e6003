"""What README and docs say in words agrees with the code, and with the result files.

Figures of tables are in test_documented_figures.py; here are statements around them.
"""

import inspect
import re
from pathlib import Path

import numpy as np
import pytest

import ordinalrbm as orbm
from ordinalrbm.engine import mean_field, ordinal_gibbs, rated_sets
from ordinalrbm.estimators.ratings import RatingModel
from ordinalrbm.matrix import draws, feature_priors, gibbs_learner, gibbs_sampler, update

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
RATING_MODELS = (orbm.OrdinalMF, orbm.GaussianMF, orbm.MatrixCumulativeRBM, orbm.MultinomialRBM)


def source_of(page):
    path = ROOT / "README.md" if page == "README" else ROOT / "docs" / f"{page}.md"
    return path.read_text(encoding="utf-8")


def text_of(page):
    """A page as one line, so that where its lines end does not matter."""
    return " ".join(source_of(page).split())


def takes(call, name):
    return name in inspect.signature(call).parameters


# ---- what was true once -----------------------------------------------------------------------


def test_the_guide_says_which_models_can_be_updated():
    can = {m.__name__ for m in RATING_MODELS if m._update is not RatingModel._update}
    (sentence,) = re.findall(r"[^.:|]*`update` and `vectors`[^.]*\.", text_of("recommender"))
    assert {m.__name__ for m in RATING_MODELS if m.__name__ in sentence} == can, sentence


def test_the_guide_says_per_model_what_becomes_of_held_out_ratings():
    learns = {m.__name__ for m in RATING_MODELS if takes(m, "refit")}
    (sentence,) = re.findall(r"[^.]* learns from them in the end", text_of("evaluation"))
    assert {m.__name__ for m in RATING_MODELS if f"`{m.__name__}`" in sentence} == learns


# ---- figures and what is said of them ---------------------------------------------------------


def runs_of(name):
    """(seeds, text) of each run in a result file."""
    runs = re.split(r"^\$ ", (RESULTS / name).read_text(), flags=re.MULTILINE)
    return [(int(found[1]), run) for run in runs if (found := re.search(r"--seeds (\d+)", run))]


def section(page, start, stop):
    found = re.search(f"{re.escape(start)}.*?{re.escape(stop)}", text_of(page))
    assert found, f"{page} has no passage from {start!r} to {stop!r}"
    return found[0]


def test_numbers_of_seeds_are_those_of_the_runs():
    passage = section("comparison", "## Public splits", "## Hidden answers")
    for seeds, run in runs_of("public-splits.txt"):
        figures = re.findall(r"0\.\d{4}", re.sub(r"#.*|.*published.*", "", run))
        if any(figure in passage for figure in figures):
            number = {1: "one seed", 2: "two seeds", 3: "three seeds"}[seeds]
            assert number in passage, f"some figures are the mean of {number}"


def test_figures_called_published_are_those_that_others_print():
    rows = [line for line in source_of("comparison").splitlines() if line.startswith("|")]
    (head,) = [k for k, row in enumerate(rows) if "published RMSE" in row]
    published = re.findall(".*published.*", (RESULTS / "public-splits.txt").read_text())
    printed = set(re.findall(r"0\.\d+", " ".join(published)))
    for row in rows[head + 2 :]:
        if not row.startswith(("| MovieLens", "| the same, validation")):
            break
        assert set(re.findall(r"0\.\d+", row.split("|")[-2])) <= printed, row


@pytest.mark.parametrize("page", ["ratings-start", "recommender"])
def test_how_much_longer_sampling_takes_is_measured(page):
    splits = (RESULTS / "public-splits.txt").read_text().split("For the seconds on two cores")[1]
    peers = (RESULTS / "peers-movielens.txt").read_text()

    def seconds(data, method):
        return np.array(re.findall(rf"^{data} +{method}  .* ([\d.]+)$", splits, re.M), dtype=float)

    on_100k = seconds(r"u\d", "sampled") / seconds(r"u\d", "variational")
    # The first of them ran with nothing beside it.
    on_cores, *_ = re.findall(r"^ordinal_mf, sampled  .*? (\d+\.\d) ", peers, re.M)
    on_1m = float(on_cores) / seconds("chronological", "variational")[0]
    least, most = map(int, re.findall(r"(\d+) to (\d+) times", text_of(page))[0])
    assert least <= on_1m <= least + 5 and on_100k.max() <= most <= on_100k.max() + 5


@pytest.mark.parametrize("page", ["settings", "inside"])
def test_what_settings_are_worth_is_measured(page):
    """Figures in running text, where they are reasons to choose a setting."""
    table = (RESULTS / "hidden-answers-settings.txt").read_text()
    lines = re.findall(r"^bfi +\d +([\d.]+) +([\d.]+)$", table, re.M)
    (narrow, plain), (narrow_styles, styles) = ([f"{float(x):.2f}" for x in line] for line in lines)
    for change in ((narrow, plain), (narrow_styles, styles), (plain, styles)):
        assert "from {} to {}".format(*change) in text_of(page)


# ---- the mathematics --------------------------------------------------------------------------


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
