"""Modules of PyTorch and metrics that two or more tasks use, and the bases of the models."""
