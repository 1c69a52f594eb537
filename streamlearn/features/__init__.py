"""Pure numerics under the learners: compiled kernels, feature maps, online scaling. Knows numpy and numba only."""
