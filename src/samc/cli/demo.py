"""`samc demo`: a network that remembers, a picture of what it remembers, and how many bytes that took."""

from io import BytesIO
from pathlib import Path
from typing import Annotated

import typer

from samc.cli.drawing import Terminal, draw
from samc.cli.page import leave_page
from samc.cli.progress import bar_watcher, live_progress
from samc.cli.terminal import say
from samc.device import choose
from samc.errors import OutputError
from samc.experiments.demo import PAPER
from samc.experiments.demo import demo as run_demo
from samc.experiments.pictures import PICTURES, read_pictures
from samc.files import write_whole
from samc.record import claimed_folder
from samc.report.gallery import draw_gallery
from samc.report.summary import summary_table


def demo(
    out: Annotated[
        Path, typer.Option(help="folder for the records and the picture; an earlier demo is replaced")
    ] = Path("runs/demo"),
    seed: Annotated[int, typer.Option(help="another seed, other images")] = 0,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda")] = "auto",
) -> None:
    """Finetune, GEM and SAMC, as in the paper and at its best, on the embedded stream at equal true bytes.

    Examples:

      samc demo

      samc demo --seed 1 --out runs/demo-1
    """
    console = Terminal()
    chosen = choose(device)
    picture = out / "memory.png"
    if out.is_dir() and any(out.iterdir()) and not picture.exists():
        raise OutputError(f"{out} holds something other than a demo; choose another --out")
    with claimed_folder(out):
        with live_progress(console) as progress:
            outcomes = run_demo(seed, chosen, lambda name: bar_watcher(progress, name))
        records = {name: outcome.record for name, outcome in outcomes.items()}
        memory = records[PAPER].memory
        budget = f"at most {memory['budget_bytes']:,} bytes of memory per task"
        draw(summary_table(records, f"split-synthetic, seed {seed}, {budget}"))
        folders = {name: out / name.replace(", ", "-").replace(" ", "-") for name in outcomes}
        for name, outcome in outcomes.items():
            folders[name].mkdir(exist_ok=True)
            for file, content in outcome.files.items():
                write_whole(folders[name] / file, content, replace=True)
            outcome.record.save(folders[name], replace=True)
        drawn = BytesIO()
        kept = f"{sum(memory['images_per_task'])} images in {memory['memory_bytes']:,} bytes"
        draw_gallery(read_pictures(folders[PAPER] / PICTURES), drawn, f"What the paper's SAMC keeps: {kept}")
        write_whole(picture, drawn.getvalue(), replace=True)
    say(f"records: {out}    picture: {picture}")
    leave_page(out)
