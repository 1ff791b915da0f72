"""Pictures of computation graphs and of attention, with every number taken from the engine."""

from .attention import attention_map
from .draw import draw_graph
from .figure import Figure, GraphFigure
from .graph import Graph, GraphEdge, GraphNode, trace

__all__ = ["Figure", "Graph", "GraphEdge", "GraphFigure", "GraphNode", "attention_map", "draw_graph", "trace"]
