"""How advantage and log-prob go together token by token: where plain policy gradients lose their entropy."""

from torch import Tensor


def covariance(advantage_N: Tensor, logprob_N: Tensor) -> Tensor:
    """cov_t = (A_t − mean A)(logp_t − mean logp) over the N tokens at hand, (N,) (Cui et al. 2025).

    Its mean is the covariance that, to first order, a gradient step takes from the entropy.
    """
    if not len(advantage_N):
        return advantage_N
    return (advantage_N - advantage_N.mean()) * (logprob_N - logprob_N.mean())
