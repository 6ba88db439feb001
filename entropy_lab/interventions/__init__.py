"""Changing a checkpoint or what it is asked, without training: interpolation, forced entrances, prompting."""
