"""Questions to a computation: why is this gradient missing, zero or NaN, what is kept in memory, how large is it?

- `why(tensor, loss)`: what became of ∂loss/∂tensor, with the operation at fault.
- `detect_anomaly()`: raise where the first NaN or infinity is made.
- `memory(loss)`: bytes kept for the backward pass. `statistics(loss)`: nodes, edges, depth.

All of them only look: no `.grad` is touched and no hook of a tensor is called.
"""

from tinygrad_attn.diagnose.anomaly import detect_anomaly
from tinygrad_attn.diagnose.explanation import Cause, Explanation
from tinygrad_attn.diagnose.ledger import Ledger, memory
from tinygrad_attn.diagnose.statistics import Statistics, statistics
from tinygrad_attn.diagnose.why import why

__all__ = ["Cause", "Explanation", "Ledger", "Statistics", "detect_anomaly", "memory", "statistics", "why"]
