"""Pictures of computation graphs and of attention."""
