"""Inside Avalanche: our memory in its strategies, and its benchmarks as our streams. Needs `samc[avalanche]`."""

from samc.extras import imported

imported("avalanche", "'samc[avalanche]'")  # before what follows asks for it, without a word on how to get it

from samc.avalanche.benchmark import from_avalanche  # noqa: E402
from samc.avalanche.plugin import SAMCPlugin  # noqa: E402
from samc.avalanche.replay import CompressedBuffer, CompressedReplayPlugin  # noqa: E402

__all__ = ["CompressedBuffer", "CompressedReplayPlugin", "SAMCPlugin", "from_avalanche"]
