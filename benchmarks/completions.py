"""How near completed images come to the truth: PSNR on dropped pixels of held-out images, by stream and completion.

Held out is a tenth of the training images, which nothing here learns from: pretrained weights are from another data
set, and the autoencoder that starts from random weights learns from the other nine tenths, a few steps of SGD per task
as in SAMC. Masks are those of pretraining, random ones. Needs the data sets: samc data fetch cifar10, cifar100.
"""

import argparse
from pathlib import Path

import numpy as np
import torch

from common import Row, options, report
from samc.completion import RULES, Completion, parse_completion
from samc.experiments.pretraining import random_masks
from samc.learners.completing import CompletionSettings
from samc.learners.samc import AUTOENCODER_BATCH, SALIENCY_BATCH
from samc.similarity import psnr, squared_error
from samc.streams import Stream, open_stream

STREAMS = ("split-cifar10", "split-cifar100", "split-mini-imagenet")
IMAGES = 1000
SHARED = {"autoencoder_output": "whole", "completion": "telea+autoencoder"}
WAYS = {
    "zeros": {"completion": "zero"},
    "telea": {"completion": "telea"},
    "telea, then drawn and trained on the stream, a correction": SHARED | {"autoencoder_output": "correction"},
    "telea, then drawn and trained on the stream, the whole image": SHARED,
    "pretrained alone": SHARED | {"completion": "autoencoder", "autoencoder_start": "pretrained"},
    "telea, then pretrained": SHARED | {"autoencoder_start": "pretrained"},
    "telea, then pretrained and trained on the stream": SHARED | {"autoencoder_start": "pretrained"},
}
TRAINED = [way for way in WAYS if way.endswith(("trained on the stream", "a correction", "the whole image"))]
BEST, RULE = "telea, then pretrained", "telea"
LEAST = 0.7
CLAIM = f"Pretrained on other images, the autoencoder completes held-out ones better than Telea's rule by {LEAST} dB."


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
    made = {}
    for way, how in WAYS.items():
        settings = CompletionSettings(**how).on(stream.name)
        autoencoder = settings.autoencoder(3, seed=0)
        rule, _ = parse_completion(settings.completion)
        made[way] = Completion(rule, autoencoder and autoencoder.to(device), device)
    train({way: made[way] for way in TRAINED}, stream, np.random.default_rng(1))
    return made


def measure(stream: Stream, given: argparse.Namespace, count: int) -> list[Row]:
    held_out = torch.cat([task.test_x for task in stream])
    images = np.ascontiguousarray(held_out[:: max(1, len(held_out) // count)][:count].numpy())
    masks = random_masks(len(images), *images.shape[2:], np.random.default_rng(0))
    masked, truth = RULES["zero"](images, masks), images / np.float32(255)
    found: dict[str, float] = {}
    for way, completion in completions(stream, given.device).items():
        error = squared_error(completion(masked, masks).cpu().numpy(), truth, ~masks)
        found[way] = psnr(error) or 0.0
    return [
        {
            "stream": stream.name,
            "completion": way,
            "images": len(images),
            "kept": float(masks.mean()),
            "dB on dropped pixels": round(value, 2),
            "above telea": round(value - found[RULE], 2),
        }
        for way, value in found.items()
    ]


def main(arguments: list[str] | None = None) -> None:
    given = options(__doc__, arguments, "--data-dir")
    names = ("split-synthetic",) if given.quick else STREAMS
    rows = []
    for name in names:
        few = {"n_tasks": 1, "samples_per_task": 20} if given.quick else {}
        stream = open_stream(name, data_dir=given.data_dir and Path(given.data_dir), tested_on="held-out", **few)
        rows += measure(stream, given, 20 if given.quick else IMAGES)
    gains = {row["stream"]: row["above telea"] for row in rows if row["completion"] == BEST}
    report(__file__, CLAIM, rows, ", ".join(f"{name} {gain:+.2f} dB" for name, gain in gains.items()) + ".", given)
    if not given.quick and min(gains.values()) < LEAST:
        raise SystemExit(f"it is not better by {LEAST} dB everywhere")


if __name__ == "__main__":
    main()
