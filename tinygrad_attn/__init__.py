"""A small tensor autograd engine on NumPy."""
