"""Fit indices on polychoric correlations beside R's, and whether person fit finds random answerers, on bfi.

    python benchmarks/fit_indices.py [--rscript Rscript]

R needs psych, lavaan and GPArotation (Debian: r-cran-psych, r-cran-lavaan, r-cran-gparotation).
"""

from __future__ import annotations

import argparse
import io
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score
from sources import DATA

import ordinalrbm as orbm
from ordinalrbm.stats import efa

N_FACTORS = 5
RANDOM = 0.1  # of the people
IN_R = r"""
suppressMessages({library(psych); library(lavaan); library(GPArotation)})
folder <- commandArgs(TRUE)[1]
x <- read.csv(file.path(folder, "answers.csv"))
rho <- as.matrix(read.csv(file.path(folder, "correlations.csv"), row.names = 1))
line <- function(name, value) cat(name, value, sep = ",", fill = TRUE)
say <- function(name, f) {
  line(paste0(name, ",rmsea"), unname(f$RMSEA[1])); line(paste0(name, ",tli"), f$TLI)
  line(paste0(name, ",rmsr"), f$rms)
}
say("psych on its polychorics", f <- suppressWarnings(fa(x, 5, cor = "poly", fm = "minres")))
own <- suppressWarnings(fa(rho, 5, n.obs = nrow(x), fm = "minres"))
say("psych on ours", own)
write.csv(unclass(own$loadings), file.path(folder, "oblimin.csv"))
plain <- unclass(fa(rho, 5, n.obs = nrow(x), fm = "minres", rotate = "none")$loadings)
best <- NULL
for (i in 1:4) {
  r <- suppressWarnings(bifactorT(plain, Tmat = Random.Start(5), eps = 1e-5, maxit = 1000))
  if (is.null(best) || min(r$Table[, 2]) < min(best$Table[, 2])) best <- r
}
write.csv(unclass(best$loadings), file.path(folder, "bifactor.csv"))
scales <- split(colnames(x), substr(colnames(x), 1, 1))
cfa_of <- paste(names(scales), "f =~ ", sapply(scales, paste, collapse = " + "), sep = "", collapse = "\n")
g <- paste("g =~", paste(colnames(x), collapse = " + "))
for (m in c("one factor", "five factors")) {
  model <- if (m == "one factor") g else cfa_of
  found <- cfa(model, sample.cov = rho, sample.nobs = nrow(x), estimator = "ULS", std.lv = TRUE,
               sample.cov.rescale = FALSE)
  i <- fitMeasures(found, c("chisq", "df", "rmsea", "cfi", "tli", "srmr"))
  for (k in names(i)) line(paste("lavaan ULS,", m, k, sep = " "), i[[k]])
  write.csv(fitted(found)$cov[colnames(x), colnames(x)], file.path(folder, paste0(sub(" .*", "", m), ".csv")))
}
"""


def in_r(rscript: str, folder: Path) -> pd.DataFrame:
    (folder / "run.R").write_text(IN_R)
    done = subprocess.run([rscript, "run.R", "."], cwd=folder, check=True, capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if line.count(",") == 2]
    return pd.read_csv(io.StringIO("\n".join(lines)), header=None, names=["who", "what", "R"])


def read(folder: Path, name: str) -> np.ndarray:
    return pd.read_csv(folder / f"{name}.csv", index_col=0).to_numpy()


def alike(ours: np.ndarray, theirs: np.ndarray) -> float:
    """The largest difference of loadings, with factors in whatever order and sign."""
    place = np.abs(ours.T @ theirs).argmax(axis=1)
    sign = np.sign((ours * theirs[:, place]).sum(axis=0))
    return float(np.abs(ours - sign * theirs[:, place]).max())


def person_fit(answers: pd.DataFrame, seed: int) -> float:
    rng = np.random.default_rng(seed)
    some = rng.permutation(len(answers))[: round(RANDOM * len(answers))]
    mixed = answers.copy()
    drawn = rng.integers(1, 7, (some.size, answers.shape[1]))
    mixed.iloc[some] = np.where(answers.iloc[some].isna(), np.nan, drawn)
    model = orbm.CumulativeRBM(random_state=seed).fit(mixed)
    return float(
        roc_auc_score(np.isin(np.arange(len(mixed)), some), -model.person_fit(mixed)["fit"].fillna(0.0))
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rscript", default="Rscript")
    options = parser.parse_args()
    answers = pd.read_parquet(DATA / "bfi.parquet").filter(regex="^[ACENO][1-5]$")
    found = orbm.polychoric(answers)
    own = found.factor_analysis(N_FACTORS)
    bifactor = found.factor_analysis(N_FACTORS, rotation="bifactor")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        answers.to_csv(folder / "answers.csv", index=False)
        found.correlations.to_csv(folder / "correlations.csv")
        table = in_r(options.rscript, folder)
        ours = dict(own.fit)
        given = found.correlations.to_numpy()
        for model in ("one factor", "five factors"):
            implied = read(folder, model.split()[0])
            df = int(table.loc[table["what"].str.strip() == f"{model} df", "R"].iloc[0])
            fit = efa.fit_indices(given, implied, len(answers), df, discrepancy="uls")
            ours |= {f"{model} {key}": value for key, value in fit._asdict().items()}
            ours[f"{model} chisq"] = fit.chi2
        table["what"] = table["what"].str.strip()
        table["ours"] = [ours[what] for what in table["what"]]
        table["difference"] = (table["ours"] - table["R"]).abs()
        print(f"bfi: {len(answers)} people, {answers.shape[1]} questions")
        print(table.to_string(index=False, float_format="{:.5f}".format), flush=True)
        for rotation, reading in {"oblimin": own, "bifactor": bifactor}.items():
            away = alike(reading.loadings.to_numpy(), read(folder, rotation))
            print(
                f"loadings on ours, {rotation} of psych and GPArotation without Kaiser: differ by {away:.5f}"
            )
    area = person_fit(answers, seed=0)
    print(f"person fit, 10% of the people random answerers: AUC {area:.3f}")


if __name__ == "__main__":
    main()
