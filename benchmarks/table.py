"""All claims in one Markdown table, made of the results that the benchmarks have left; with --rows their tables too."""

import argparse
import json
from pathlib import Path
from typing import Any

from common import RESULTS, markdown


def machine(result: dict[str, Any]) -> str:
    """The machine in a few words."""
    device = result["device"]
    threads = f", {result['threads']} threads" if device["type"] == "cpu" else ""
    return f"{device['name']}{threads}, torch {result['versions']['torch']}"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--rows", action="store_true", help="each benchmark's own table below")
    parser.add_argument("--only", help="one result, by its name without .json")
    options = parser.parse_args(arguments)
    paths = sorted(options.results.glob(f"{options.only or '*'}.json"))
    results = {path.stem: json.loads(path.read_text()) for path in paths}
    if not results:
        name = options.only or "results"
        raise SystemExit(f"{options.results} holds no {name} yet: run a benchmark first")
    print(
        markdown(
            [
                {
                    "claim": result["claim"],
                    "found": result["found"] + (" (a quick try)" if result["quick"] else ""),
                    "on": machine(result),
                    "record": f"{name}.json",
                }
                for name, result in results.items()
            ]
        )
    )
    if options.rows:
        for name, result in results.items():
            print(f"\n**{name}** ({machine(result)})\n\n{markdown(result['rows'])}")


if __name__ == "__main__":
    main()
