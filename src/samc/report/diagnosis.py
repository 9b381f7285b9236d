"""A run's diagnosis as a table for the terminal."""

from typing import Any

from rich.table import Table

SHARES = {
    "acute %": "acute",
    "loss fell if acute %": "fell_when_acute",
    "… by a short step %": "fell_when_acute_after_short_step",
    "signs agree %": "signs_agree",
    "bound holds %": "bound_holds",
}


def claims(diagnosis: dict[str, Any]) -> Table:
    """One row a task whose images are remembered: Lemma 1, Theorem 1, Lemma 2, and what completion gave back."""
    table = Table(title="diagnosis (true images kept aside for it)", title_justify="left", title_style="bold")
    for name in ("task", *SHARES, "PSNR kept", "PSNR dropped"):
        table.add_column(name, justify="right")
    for row in diagnosis["tasks"]:
        table.add_row(
            str(row["task"] + 1),
            *(shown(row[name], 100, 0) for name in SHARES.values()),
            decibels(row["squared_error_inside"], row["psnr_inside"]),
            decibels(row["squared_error_outside"], row["psnr_outside"]),
        )
    return table


def shown(value: float | None, scale: int, digits: int) -> str:
    return "–" if value is None else f"{scale * value:.{digits}f}"


def decibels(error: float | None, psnr: float | None) -> str:
    return "exact" if error == 0 else shown(psnr, 1, 1)
