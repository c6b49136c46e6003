"""Reports: one page of HTML about a survey, ratings, or the columns of a file.

A page needs no network and nothing beside it; write it to a file and open it in a browser.
"""

from ordinalrbm.files.survey import Survey
from ordinalrbm.pages.columns import schema_page
from ordinalrbm.pages.ratings import ratings_page
from ordinalrbm.pages.survey import survey_page

__all__ = ["Survey", "ratings_page", "schema_page", "survey_page"]
