"""The losses on a CUDA device: the same formulas over flat lists, in Triton, without padding.

Nothing here imports Numba; PyTorch and Triton are imported only when a loss meets a CUDA tensor.
"""
