"""Completion: what fills the pixels that memory dropped."""

from samc.completion.chain import COMPLETIONS, Completion, check_training, parse
from samc.completion.rules import RULES, as_it_is

__all__ = ["COMPLETIONS", "RULES", "Completion", "as_it_is", "check_training", "parse"]
