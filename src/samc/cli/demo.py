"""`samc demo`: a network that remembers, a picture of what it remembers, and how many bytes that took."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console


def demo(
    out: Annotated[
        Path, typer.Option(help="folder for the records and the picture; an earlier demo is replaced")
    ] = Path("runs/demo"),
    seed: Annotated[int, typer.Option(help="another seed, other images")] = 0,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda")] = "auto",
) -> None:
    """Finetune, GEM and SAMC on the embedded stream at equal true bytes: a table and a picture.

    Examples:

      samc demo

      samc demo --seed 1 --out runs/demo-1
    """
    from samc.cli.progress import Bar
    from samc.device import choose
    from samc.experiments.demo import demo as run_demo
    from samc.record import prepare_folder
    from samc.report.gallery import draw
    from samc.report.table import summary

    console = Console()
    where = choose(device)
    prepare_folder(out)
    bars: list[Bar] = []

    def bar(name: str) -> Bar:
        while bars:
            bars.pop().__exit__()
        bars.append(Bar(console, name).__enter__())
        return bars[0]

    try:
        records, remembered = run_demo(seed, where, bar)
    finally:
        while bars:
            bars.pop().__exit__()
    for name, record in records.items():
        (out / name).mkdir(exist_ok=True)
        record.save(out / name)
    budget = records["samc"].memory["budget_bytes"]
    images = sum(records["samc"].memory["images_per_task"])
    title = f"What SAMC keeps: {images} images in {records['samc'].memory['bytes']:,} bytes"
    draw(remembered, out / "memory.png", title)
    console.print(summary(records, f"split-synthetic, seed {seed}, at most {budget:,} bytes a task"))
    console.print(f"records: {out}    picture: {out / 'memory.png'}", highlight=False)
