"""Words that readers type must find a page: with ``--strict`` the site is not built without them."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

_LOG = logging.getLogger("mkdocs.hooks.search_words")
WORDS = (
    "Likert",
    "EFA",
    "exploratory factor analysis",
    "IRT",
    "item response",
    "graded response",
    "Cronbach",
    "parallel analysis",
    "design effect",
    "confidence interval",
    "missing at random",
    "multiple imputation",
    "Rubin",
    "SPSS",
    "Stata",
    "Excel",
    "citation",
    "notebook",
    "implicit feedback",
    "cold start",
    "NDCG",
    "ONNX",
    "GPU",
    "Docker",
    "polychoric",
    "weights",
)


def on_post_build(*, config: Any, **_: Any) -> None:
    """Look every word up in the index that the browser searches."""
    index = json.loads((Path(config["site_dir"]) / "search" / "search_index.json").read_text("utf-8"))
    text = "\n".join(f"{entry['title']} {entry['text']}" for entry in index["docs"]).lower()
    for word in WORDS:
        if word.lower() not in text:
            _LOG.warning("the search finds no page for %r", word)
