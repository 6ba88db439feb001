"""Training logs of any trainer in, entropy and reward by step out."""
