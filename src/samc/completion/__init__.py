"""Completion: what fills the pixels that memory dropped."""

from samc.completion.chain import COMPLETIONS, Completion, parse_completion
from samc.completion.rules import RULES, unchanged

__all__ = ["COMPLETIONS", "RULES", "Completion", "parse_completion", "unchanged"]
