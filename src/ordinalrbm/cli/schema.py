"""``ordinalrbm schema``: what the columns of a file were taken for."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from ordinalrbm.cli import inputs, options
from ordinalrbm.cli.app import app
from ordinalrbm.cli.options import option
from ordinalrbm.cli.output import counted
from ordinalrbm.errors import DataError

_EXAMPLES = """\b
Examples:
  ordinalrbm schema survey.sav
  ordinalrbm schema survey.sav --page columns.html
  ordinalrbm schema survey.sav --out schema.toml
  ordinalrbm schema survey.sav --questions "q*" --exclude q5,q6
  ordinalrbm schema survey.sav --schema schema.toml --page columns.html"""


@app.command(epilog=_EXAMPLES)
def schema(
    data: options.DataFile,
    *,
    schema: Annotated[
        Path | None, option("FILE", "A TOML file that corrects what would be proposed.")
    ] = None,
    questions: options.QuestionsOption = None,
    exclude: options.ExcludeOption = None,
    out: Annotated[Path | None, options.out_option("Write the schema as TOML, for you to correct.")] = None,
    page: Annotated[Path | None, option("FILE", "Write a page with all columns and their counts.")] = None,
    telling: options.Telling,
) -> None:
    """Show how the columns of a survey were read.

    Doubtful ones come first. For every column its kind (ordinal, nominal, numeric, background,
    fieldwork, weight, id or ignored), its levels from lowest to highest, the codes that are no answer, how
    sure that is, and why.
    """
    for path in (out, page):
        inputs.check_files(data, schema, out=path)
    if out is not None and page is not None and out.absolute() == page.absolute():
        raise DataError(f"--out and --page are both '{out}'; write to two files.")
    from ordinalrbm.cli.schema_table import proposal_table
    from ordinalrbm.files.formats import read
    from ordinalrbm.schema.toml import to_toml
    from ordinalrbm.storage.atomic import atomic_write

    source = read(data)
    settings = options.SurveySettings(schema=schema, questions=questions, exclude=exclude)
    found = inputs.schema_of(source, settings)
    written = {}
    if page is not None:
        from ordinalrbm.pages import schema_page

        written[page] = schema_page(source, found)
    if out is not None:
        from ordinalrbm.schema.infer import propose

        written[out] = to_toml(found, propose(source) if schema else None)
    for path, text in written.items():
        with atomic_write(path) as file:
            file.write_text(text, encoding="utf-8")
    doubtful = [column.name for column in found.columns if column.is_doubtful]
    summary = f"{counted(len(found.columns), 'column')}, {len(doubtful) or 'none'} of them doubtful."
    if page is not None:
        summary += f" The page is in {page}."
    if out is not None:
        summary += f" The schema is in {out}; edit it, then use it with --schema {out}."
    telling.output().result(
        {"columns": [asdict(column) for column in found.columns], "doubtful": doubtful},
        proposal_table(found),
        text=summary,
    )
