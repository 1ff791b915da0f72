"""Pictures of computation graphs and of attention, with every number taken from the engine."""

from .attention import attention_map
from .figure import Figure, GraphFigure

__all__ = ["Figure", "GraphFigure", "attention_map"]
