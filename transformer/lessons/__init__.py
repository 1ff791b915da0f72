"""The lessons: a model trained before the reader's eyes, and what it computes, as tables, pictures and a page."""
