"""The base class of the metrics, and metrics that two or more tasks use."""
