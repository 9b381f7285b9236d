"""What a step of SAMC's best preset costs, in steps of finetune, and what it costs without each part."""

from typing import Any

from common import SIDE, learner, options, report, rounds, steps

PAST, QUICK_PAST = 10, 1
WITHOUT: dict[str, dict[str, Any]] = {
    "all parts": {},
    "without old heads held": {"distil": 0.0},
    "without 30 replayed": {"replay_size": 0, "replay_weight": 0.0},
    "without the current task's memory": {"replay_current": False},
    "without flips": {"augment": "none"},
    "without the average": {"average": 0.0, "distil": 0.0},
    "with saliency, 1,024 bytes per task": {"memory_bytes": "1024/task"},
}
CLAIM = "A step of the best preset costs at most 6 times finetune's on two cores."


def main(arguments: list[str] | None = None) -> None:
    given = options(__doc__, arguments)
    past, side = (QUICK_PAST, 16) if given.quick else (PAST, SIDE)
    cases = {"finetune": steps(learner("finetune", 0, given.device, side, past + 1).observe, 0, side)}
    for name, settings in WITHOUT.items():
        cases[name] = steps(learner("samc", past, given.device, side, past + 1, **settings).observe, past, side)
    spent = rounds(cases, given.device, given.quick)
    rows = [{"step": name, "ms": 1000 * time, "/ finetune": time / spent["finetune"]} for name, time in spent.items()]
    times = spent["all parts"] / spent["finetune"]
    report(__file__, CLAIM, rows, f"A step with all parts costs {times:.1f} times finetune's.", given)


if __name__ == "__main__":
    main()
