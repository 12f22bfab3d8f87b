"""The base classes of the metrics, and those that two or more tasks use."""
