"""What a command writes to stderr: lines on how a run goes on, and what is wrong."""

import re

PROGRESS = re.compile(r"^.*: task \d+/\d+  .*\n", flags=re.M)


def progress_lines(err):
    return PROGRESS.findall(err)


def without_progress(err):
    return PROGRESS.sub("", err)
