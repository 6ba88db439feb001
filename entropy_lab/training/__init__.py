"""Training in the same code that diagnoses: recipes, corpora, the supervised loop, its state on disk."""
