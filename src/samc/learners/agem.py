"""A-GEM (Chaudhry et al. 2019): GEM with one constraint, the mean gradient of a sample of all past memories."""

from samc.learners import rules
from samc.learners.rehearsal import RehearsalLearner
from samc.learners.settings import ConstraintSettings


class AGEM(RehearsalLearner):
    """θ ← θ − α·(g − min(0, ⟨g, r⟩/⟨r, r⟩)·r), where r is the gradient on the sample."""

    Settings = ConstraintSettings
    rule = staticmethod(rules.agem)
