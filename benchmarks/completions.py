"""How near completed images come to the truth, by stream, completion and threshold: PSNR and SSIM on held-out images.

Held out is a tenth of the training images, which nothing here learns from: pretrained weights are from another data
set, and the autoencoder that starts from random weights learns from the other nine tenths, a few steps of SGD per task
as in SAMC. Masks are random, as in pretraining; PSNR is on dropped pixels, SSIM on whole images. p is of the paired t
test against Telea's rule over the images: of each one's mean squared error, and of its SSIM. Needs the data sets: samc
data fetch cifar10, cifar100.
"""

import argparse
from collections import defaultdict
from pathlib import Path

import numpy as np
import torch

from common import Row, options, report
from samc.completion import RULES, Completion, parse_completion
from samc.completion.rule_cache import RuleCache
from samc.experiments.pretraining import random_masks
from samc.learners import configure
from samc.learners.completing import CompletionSettings
from samc.learners.samc import AUTOENCODER_BATCH, SALIENCY_BATCH
from samc.report.numbers import format_p
from samc.report.student import paired_p
from samc.similarity import psnr, squared_error, ssim
from samc.streams import Stream, open_stream

STREAMS = ("split-cifar10", "split-cifar100", "split-mini-imagenet")
THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9)
IMAGES = 500
# of each stream, the same at every threshold
SHARED = {"autoencoder_output": "whole", "completion": "telea+autoencoder"}
WAYS = {
    "zeros": {"completion": "zero"},
    "telea": {"completion": "telea"},
    "telea, then stream, a correction": SHARED | {"autoencoder_output": "correction"},
    "telea, then stream, the whole image": SHARED,
    "pretrained alone": SHARED | {"completion": "autoencoder", "autoencoder": "pretrained"},
    "telea, then pretrained": SHARED | {"autoencoder": "pretrained"},
    "telea, then pretrained, then stream": SHARED | {"autoencoder": "pretrained"},
}
TRAINED = [way for way in WAYS if "stream" in way]
BEST, RULE = "telea, then pretrained", "telea"
LEAST = 0.7
CLAIM = (
    f"Pretrained on other images, the autoencoder completes held-out ones better than Telea's rule by {LEAST} dB on "
    "dropped pixels, at the paper's threshold for each stream."
)


def train(learning: dict[str, Completion], stream: Stream, random: np.random.Generator) -> None:
    """Line 16 of Algorithm 1 after each task, with random masks instead of Grad-CAM's; all on the same images."""
    steps, lr = CompletionSettings.autoencoder_steps, CompletionSettings.autoencoder_lr
    shared = next(iter(learning.values()))
    for task in stream:
        rows = torch.from_numpy(random.integers(len(task.x), size=AUTOENCODER_BATCH * steps))
        for some in rows.split(SALIENCY_BATCH):
            images = np.ascontiguousarray(task.x[some].numpy())
            coarse, _ = shared.coarse(images, random_masks(len(images), *images.shape[2:], random))
            truth = torch.from_numpy(images).to(coarse) / 255
            for pair in zip(coarse.split(AUTOENCODER_BATCH), truth.split(AUTOENCODER_BATCH), strict=True):
                for completion in learning.values():
                    completion.learn(*pair, lr=lr)


def completions(stream: Stream, device: torch.device) -> dict[str, Completion]:
    """Each way to complete an image of a stream; those that learn from it have done so."""
    made, caches = {}, defaultdict(RuleCache)  # one per rule: a cache does not know whose results it holds
    for way, how in WAYS.items():
        settings = CompletionSettings(**how).on(stream.name, stream.source)
        autoencoder = settings.make_autoencoder(3, seed=0)
        rule, _ = parse_completion(settings.completion)
        made[way] = Completion(rule, autoencoder and autoencoder.to(device), device, caches[rule])
    train({way: made[way] for way in TRAINED}, stream, np.random.default_rng(1))
    return made


def measure(stream: Stream, given: argparse.Namespace, count: int) -> list[Row]:
    """A row for each completion: dB on dropped pixels at each threshold, SSIM, p of the differences from Telea."""
    held_out = torch.cat([task.test_x for task in stream])
    images = np.ascontiguousarray(held_out[:: max(1, len(held_out) // count)][:count].numpy())
    truth, everywhere = images / np.float32(255), np.ones((1, *images.shape[2:]), bool)
    ways = completions(stream, given.device)
    shown: dict[str, Row] = {way: {"dB": {}, "SSIM": {}, "p of dB": {}, "p of SSIM": {}} for way in ways}
    for threshold in THRESHOLDS:
        masks = random_masks(len(images), *images.shape[2:], np.random.default_rng(0), (threshold, threshold))
        masked = RULES["zero"](images, masks)
        completed = {way: completion(masked, masks).cpu().numpy() for way, completion in ways.items()}
        each = [slice(number, number + 1) for number in range(len(images))]
        errors = {way: [squared_error(x[one], truth[one], ~masks[one]) for one in each] for way, x in completed.items()}
        alike = {way: [ssim(x[one], truth[one], everywhere) for one in each] for way, x in completed.items()}
        for way, x in completed.items():
            shown[way]["dB"][threshold] = round(psnr(squared_error(x, truth, ~masks)) or 0.0, 2)
            shown[way]["SSIM"][threshold] = round(float(np.mean(alike[way])), 3)
            for name, values in (("p of dB", errors), ("p of SSIM", alike)):
                shown[way][name][threshold] = format_p(paired_p(np.subtract(values[way], values[RULE]).tolist()))
    return [
        {"stream": stream.name, "completion": way, "images": len(images)}
        | {f"{name} {threshold}": value for name, by in shown[way].items() for threshold, value in by.items()}
        for way in ways
    ]


def gains(rows: list[Row]) -> dict[str, float]:
    """How many dB the pretrained autoencoder is above Telea's rule, by stream, at the paper's threshold for it."""
    found = {(row["stream"], row["completion"]): row for row in rows}
    above = {}
    for name in dict.fromkeys(row["stream"] for row in rows):
        at = f"dB {configure({'dataset': name, 'preset': 'paper'})[0].as_dict()['threshold']}"
        above[name] = found[name, BEST][at] - found[name, RULE][at]
    return above


def main(arguments: list[str] | None = None) -> None:
    given = options(__doc__, arguments, "--data-dir")
    names = ("split-synthetic",) if given.quick else STREAMS
    rows = []
    for name in names:
        few = {"n_tasks": 1, "samples_per_task": 20} if given.quick else {}
        stream = open_stream(name, data_dir=given.data_dir and Path(given.data_dir), tested_on="held-out", **few)
        rows += measure(stream, given, 20 if given.quick else IMAGES)
    above = gains(rows)
    report(__file__, CLAIM, rows, ", ".join(f"{name} {gain:+.2f} dB" for name, gain in above.items()) + ".", given)
    if not given.quick and min(above.values()) < LEAST:
        raise SystemExit(f"it is not better by {LEAST} dB everywhere")


if __name__ == "__main__":
    main()
