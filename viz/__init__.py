"""Pictures of computation graphs and of attention, with every number taken from the engine."""

from .attention import attention_map
from .draw import draw_graph
from .figure import Figure, GraphFigure
from .graph import Graph, GraphEdge, GraphNode, trace
from .replay import Replay, replay

__all__ = [
    "Figure",
    "Graph",
    "GraphEdge",
    "GraphFigure",
    "GraphNode",
    "Replay",
    "attention_map",
    "draw_graph",
    "replay",
    "trace",
]
