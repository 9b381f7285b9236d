"""What a GEM step costs by number of past tasks, for each way of choosing constraints, in steps of finetune."""

from common import BATCH, SIDE, learner, options, report, rounds, steps

COUNTS, SAMPLED, FEW, MANY = (1, 2, 5, 10, 20, 50, 100), 5, 10, 100
QUICK = (1, 2), 1, 1, 2
CLAIM = "With sampled constraints a step's cost does not grow with the number of past tasks."


def main(arguments: list[str] | None = None) -> None:
    given = options(__doc__, arguments)
    counts, sampled, few, many = QUICK if given.quick else (COUNTS, SAMPLED, FEW, MANY)
    side, heads = (16 if given.quick else SIDE), max(counts) + 1
    ways = ("all", f"sampled:{sampled}", "mean")
    cases = {"finetune": steps(learner("finetune", 0, given.device, side, heads).observe, 0, side)}
    for past in counts:
        for way in ways:
            made = learner("gem", past, given.device, side, heads, constraints=way)
            cases[f"{way} {past}"] = steps(made.observe, past, side)
    spent = rounds(cases, given.device, given.quick)
    rows = []
    for past in counts:
        row = {"past tasks": past, "images each": BATCH, "finetune ms": 1000 * spent["finetune"]}
        for way in ways:
            row[f"{way} ms"] = 1000 * spent[f"{way} {past}"]
            row[f"{way} / finetune"] = spent[f"{way} {past}"] / spent["finetune"]
        rows.append(row)
    growth = {way: spent[f"{way} {many}"] / spent[f"{way} {few}"] for way in ways}
    times = ", ".join(f"{ratio:.2f} times with {way}" for way, ratio in growth.items())
    report(__file__, CLAIM, rows, f"A step with {many} past tasks costs, against one with {few}: {times}.", given)


if __name__ == "__main__":
    main()
