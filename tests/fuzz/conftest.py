"""Prints what became of the cases, because a test that refuses everything would pass, too."""

import sys


def pytest_terminal_summary(terminalreporter):
    fuzzing = sys.modules.get("fuzzing")  # nobody has imported it where hypothesis is missing
    if fuzzing is None or not fuzzing.TALLIES:
        return
    tallies = fuzzing.TALLIES
    terminalreporter.section("random cases")
    write = terminalreporter.write_line
    write(f"{'':34}{'cases':>8}{'legal':>8}{'refused':>9}{'share legal':>13}{'longest':>10}")
    for name, tally in tallies.items():
        share = tally.legal / max(tally.cases, 1)
        write(
            f"{name:34}{tally.cases:8,}{tally.legal:8,}{tally.refused:9,}{share:13.0%}{tally.longest:8.2f} s"
        )
    write(f"{'all':34}{sum(tally.cases for tally in tallies.values()):8,}")
    if terminalreporter.config.option.verbose > 0:
        for name, tally in tallies.items():
            write(f"{name}: the most frequent refusals")
            for reason, count in tally.reasons.most_common(12):
                write(f"{count:8,}  {reason}")
