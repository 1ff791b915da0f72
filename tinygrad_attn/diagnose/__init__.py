"""Questions to a computation: why is this gradient missing, zero or NaN, what is kept in memory, how large is it?

All of them only look: no `.grad` is touched and no hook of a tensor is called.
"""

from tinygrad_attn.diagnose.anomaly import detect_anomaly
from tinygrad_attn.diagnose.ledger import Ledger, memory
from tinygrad_attn.diagnose.statistics import Statistics, statistics

__all__ = ["Ledger", "Statistics", "detect_anomaly", "memory", "statistics"]
