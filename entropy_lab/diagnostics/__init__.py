"""Tables in, numbers with intervals out; needs numpy and scipy only."""
