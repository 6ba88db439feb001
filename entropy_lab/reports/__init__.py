"""Figures, terminal summary and one self-contained HTML page from a diagnosis."""
