"""Class- and domain-incremental runs as tables: one for each stream and budget, the rivals tested against our best."""

from dataclasses import replace

from samc.experiments.scenarios import BEST
from samc.experiments.specification import Item
from samc.report.accuracy_table import AIA, accuracy_table, tested_against
from samc.report.runs import BUDGET, Results, by_stream
from samc.report.tables import Table


def scenario_tables(item: Item, results: Results) -> list[Table]:
    tables = []
    for stream, all_runs in by_stream(results, axis=BUDGET).items():
        for nbytes in dict.fromkeys(runs.variant.at for runs in all_runs):
            here = [
                replace(runs, variant=replace(runs.variant, label=runs.variant.line))
                for runs in all_runs
                if runs.variant.at == nbytes
            ]
            best = next((runs for runs in here if runs.variant.label == BEST), None)
            table = accuracy_table(item, f"{stream}, {nbytes:,.0f} bytes", here, more=[AIA])
            tables.append(tested_against(best, BEST, table, here))
    return tables
