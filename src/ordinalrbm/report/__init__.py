"""Reports: one page of HTML about a survey, about ratings, or about a model.

A page needs no network and nothing beside it; write it to a file and open it in a browser.
"""

from ordinalrbm.files.survey import Survey
from ordinalrbm.report.model import model_page
from ordinalrbm.report.ratings import ratings_page
from ordinalrbm.report.survey import survey_page

__all__ = ["Survey", "model_page", "ratings_page", "survey_page"]
