"""What encoding and decoding add to a training step on this machine, by codec; measured in one run per codec.

SAMC learns images of the embedded stream with two past tasks in memory. Decoding happens once per task; its time is
divided by the 250 steps that a task of Split CIFAR-100 has.
"""

import time

import torch

from samc.learners.er import ER
from samc.learners.samc import SAMC
from samc.machine import describe_device, versions
from samc.streams import split_synthetic

CODECS = ("coo", "bitmask", "bitmask+deflate", "cam", "cam+deflate", "gist:thumb:4+cam", "gist:jpeg:10+cam+deflate",
          "gist:webp:5+cam+deflate", "focus:jpeg:40")  # fmt: skip
WHOLE = ("raw", "jpeg:20", "webp:20")
STEPS, STEPS_PER_TASK = 12, 250


def seconds_per_step(learner: SAMC | ER) -> tuple[float, float, float]:
    """Seconds per step without encoding, for encoding, and for decoding."""
    stream = split_synthetic(seed=0, n_tasks=3, test_per_class=1)
    for task in stream:
        batches = list(task.batches(10))[: STEPS + 2]
        for number, (x, y) in enumerate(batches):
            if number == 2:  # the first steps complete memories and warm up
                learner.clock.totals.clear()
                start = time.perf_counter()
            learner.observe(x, y, task.id)
    seconds, encoding = time.perf_counter() - start, learner.clock.seconds()["encoding"]
    start = time.perf_counter()
    for task in (0, 1):
        learner.memory.recall(task)
    decoding = time.perf_counter() - start
    return (seconds - encoding) / STEPS, encoding / STEPS, decoding / STEPS_PER_TASK


def main() -> None:
    print("| method and codec | step, ms | encoding, ms | decoding, ms per step | share of the step |")
    print("|---|---|---|---|---|")
    for kind, codecs in ((SAMC, CODECS), (ER, WHOLE)):
        for codec in codecs:
            settings = {"replay": "gem", "threshold": 0.7, "completion": "telea"} if kind is SAMC else {}
            step, encoding, decoding = seconds_per_step(kind(20, (3, 32, 32), codec=codec, lr=0.02, **settings))
            share = (encoding + decoding) / step
            cells = f"{1000 * step:.1f} | {1000 * encoding:.2f} | {1000 * decoding:.3f} | {share:.2%}"
            print(f"| {kind.__name__}, {codec} | {cells} |", flush=True)
    print(f"\n{describe_device(torch.device('cpu'))}, {versions()}")


if __name__ == "__main__":
    main()
