"""The embedded Countdown ladder: small checkpoints and the problems held out from their training."""
