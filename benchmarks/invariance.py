"""Questions that work differently in groups: false positives, power, means; lavaan; seconds.

python benchmarks/invariance.py simulated --sets 20
python benchmarks/invariance.py lavaan ../shared/data/bfi.parquet  # needs Rscript and lavaan
python benchmarks/invariance.py seconds
"""

import argparse
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import norm

import ordinalrbm as orbm

N_GROUPS, N_QUESTIONS, N_FACTORS, SHARE, SIZE = 10, 30, 3, 0.1, 0.4
# Shifts of questions in the second group, freed one by one: at each step the one with the largest Wald test.
LAVAAN = """
suppressMessages(library(lavaan))
d <- read.csv("answers.csv")
questions <- setdiff(names(d), "group")
for (scale in unique(sub("[0-9]+$", "", questions))) {
  items <- grep(paste0("^", scale, "[0-9]"), questions, value = TRUE)
  settings <- list(data = d, group = "group", ordered = items, parameterization = "theta",
    estimator = "WLSMV", missing = "pairwise")
  equal <- list(model = paste("f =~", paste(items, collapse = " + ")), std.lv = TRUE,
    group.equal = c("loadings", "thresholds"))
  common <- parTable(do.call("cfa", c(equal, settings)))
  shifts <- function(free) {
    own <- common
    own$start <- own$est <- own$se <- NULL
    for (item in free) {
      row <- which(own$op == "~1" & own$lhs == item & own$group == 2)
      own$free[row] <- max(own$free) + 1
      own$ustart[row] <- NA
    }
    found <- parameterEstimates(do.call("lavaan", c(list(model = own), settings)))
    found <- found[found$op == "~1" & found$group == 2 & found$lhs %in% free, ]
    data.frame(shift = found$est, z = found$est / found$se, row.names = found$lhs)
  }
  free <- c()
  first <- do.call(rbind, lapply(items, shifts))
  own <- first
  repeat {
    rest <- setdiff(items, free)
    if (length(free)) for (item in rest) own[item, ] <- shifts(c(free, item))[item, ]
    best <- rest[which.max(abs(own[rest, "z"]))]
    if (2 * pnorm(-abs(own[best, "z"])) > 0.05 / length(questions)) break
    if (length(free) >= length(items) %/% 2) break
    free <- c(free, best)
    own[free, ] <- shifts(free)[free, ]
  }
  cat(paste(items, first[items, "z"], items %in% free, own[items, "shift"], own[items, "z"]), sep = "\n")
}
"""


def simulated(rng, n_per_group, concentrated):
    """Answers, groups, which deviate, the groups' true means by factor, and slopes."""
    factor_of = np.repeat(np.arange(N_FACTORS), N_QUESTIONS // N_FACTORS)
    mean, sd = rng.normal(0, 0.4, (N_GROUPS, N_FACTORS)), np.exp(rng.normal(0, 0.15, (N_GROUPS, N_FACTORS)))
    slope = rng.uniform(0.7, 1.6, N_QUESTIONS)
    spread = np.sqrt(1 + slope**2)
    thresholds = np.sort(rng.normal([-1.5, -0.5, 0.5, 1.5], 0.4, (N_QUESTIONS, 4))) * spread[:, None]
    deviates = np.zeros((N_GROUPS, N_QUESTIONS), dtype=bool)
    if concentrated:  # a third of the questions of three groups, all upwards
        for g in range(3):
            deviates[g, rng.choice(N_QUESTIONS, 10, replace=False)] = True
    else:
        deviates.flat[rng.choice(deviates.size, int(SHARE * deviates.size), replace=False)] = True
    sign = 1 if concentrated else rng.choice([-1, 1], deviates.shape)
    shift = deviates * sign * SIZE * spread
    group = np.repeat(np.arange(N_GROUPS), n_per_group)
    mixed = np.linalg.cholesky(0.7 * np.eye(N_FACTORS) + 0.3)
    factors = mean[group] + sd[group] * (rng.normal(size=(len(group), N_FACTORS)) @ mixed.T)
    utility = slope * factors[:, factor_of] + shift[group] + rng.normal(size=(len(group), N_QUESTIONS))
    answers = (utility[:, :, None] > thresholds).sum(axis=2) + 1.0
    answers[rng.random(answers.shape) < 0.05] = np.nan
    answers = pd.DataFrame(answers, columns=[f"q{j}" for j in range(N_QUESTIONS)])
    apart = mean - mean.mean(axis=0)
    return answers, group, deviates, apart / np.sqrt((sd**2 + apart**2).mean(axis=0)), factor_of


def check_simulated(n_sets, n_per_group, concentrated):
    rates, bias, seconds = [], [], []
    for seed in range(n_sets):
        answers, group, deviates, mean, factor_of = simulated(
            np.random.default_rng(seed), n_per_group, concentrated
        )
        model = orbm.CumulativeRBM(12, n_epochs=5, random_state=0).fit(answers)
        begun = time.process_time()
        found = model.invariance(answers, group)
        seconds.append(time.process_time() - begun)
        lines = found.questions
        number = lines["question"].str[1:].astype(int)
        is_true = deviates[lines["group"].astype(int), number]
        graded = lines["class"].to_numpy() > "A"
        rates.append(
            [
                *((lines[p] < 0.05)[~is_true].mean() for p in ("uniform_p", "nonuniform_p")),
                (lines["uniform_p"] < 0.05)[is_true].mean(),
                *(graded[~is_true].mean(), graded[is_true].mean()),
                len(lines) / deviates.size,
            ]
        )
        first = lines.groupby("factor")["question"].first().str[1:].astype(int)
        means = found.means[found.means["group"] < 3]  # where deviations are concentrated
        true = mean[means["group"].astype(int), factor_of[first[means["factor"]]]]
        bias.append([(means[name] - true).mean() for name in ("mean", "mean_all")])
    names = (
        "false positives uniform, nonuniform; power; graded B or C: not deviating, deviating; share of cells"
    )
    where = "all upwards in groups 0 to 2" if concentrated else "anywhere, up or down"
    print(
        f"{n_sets} sets, {N_GROUPS} groups of {n_per_group}, {N_QUESTIONS} questions; 10 % by 0.4 sd {where}"
    )
    print(f"  {names}:\n  {np.round(np.mean(rates, axis=0), 3).tolist()}")
    error = np.std(bias, axis=0) / np.sqrt(n_sets)
    print(
        f"  bias of means of groups 0 to 2, without deviating questions and with all: "
        f"{np.mean(bias, axis=0).round(4)}"
    )
    print(
        f"  its standard error: {error.round(4)}; processor seconds of a comparison: {np.median(seconds):.1f}"
    )


def check_lavaan(path):
    table = pd.read_parquet(path)
    questions = [name for name in table if name[0] in "ACENO" and name[1:].isdigit()]
    answers, group = table[questions], table["gender"]
    model = orbm.CumulativeRBM(12, random_state=0).fit(answers)
    own = model.invariance(answers, group).questions.set_index("question")
    with tempfile.TemporaryDirectory() as folder:
        answers.assign(group=group).to_csv(Path(folder) / "answers.csv", index=False)
        (Path(folder) / "test.R").write_text(LAVAAN)
        told = subprocess.run(["Rscript", "test.R"], cwd=folder, capture_output=True, text=True, check=True)
    rows = [line.split() for line in told.stdout.strip().splitlines()]
    theirs = pd.DataFrame(rows, columns=["question", "first_z", "freed", "shift", "z"])
    theirs = theirs.set_index("question").replace({"TRUE": 1, "FALSE": 0}).astype(float).add_prefix("lavaan_")
    columns = ["factor", "uniform", "uniform_p", "uniform_holm", "effect", "class"]
    both = own[columns].join(theirs)
    print(both.round(4).to_string())
    here, there = both["uniform_holm"] < 0.05, 2 * norm.sf(both["lavaan_z"].abs()) < 0.05 / len(both)
    alike = f"the same answer for {(here == there).sum()} of {len(both)}"
    print(f"flagged: here {here.sum()}, lavaan {there.sum()}, {alike}")
    print(f"correlation of the shifts: {both['uniform'].corr(both['lavaan_shift']):.2f}")


def check_seconds():
    rng = np.random.default_rng(0)
    n, n_groups, n_questions = 20_000, 24, 50
    factor, group = rng.normal(size=(n, 5)), rng.integers(0, n_groups, n)
    utility = np.repeat(factor, 10, axis=1) + rng.normal(size=(n, n_questions))
    answers = (utility[:, :, None] > [-1.5, -0.5, 0.5, 1.5]).sum(axis=2) + 1
    model = orbm.CumulativeRBM(12, n_epochs=2, random_state=0).fit(answers)
    for factors in (5, 1):
        begun, processor = time.perf_counter(), time.process_time()
        found = model.invariance(answers, group, n_factors=factors)
        took = time.perf_counter() - begun, time.process_time() - processor
        print(
            f"{n:,} rows, {len(found.questions):,} comparisons ({n_groups} groups, {n_questions} questions, "
            f"{factors} factors): {took[0]:.1f} s, of a processor {took[1]:.1f} s"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["simulated", "lavaan", "seconds"])
    parser.add_argument("path", nargs="?")
    parser.add_argument("--sets", type=int, default=20)
    parser.add_argument("--people", type=int, default=300)
    parser.add_argument("--concentrated", action="store_true", help="deviations upwards, in three groups")
    given = parser.parse_args()
    if given.what == "simulated":
        check_simulated(given.sets, given.people, given.concentrated)
    elif given.what == "lavaan":
        check_lavaan(given.path)
    else:
        check_seconds()
