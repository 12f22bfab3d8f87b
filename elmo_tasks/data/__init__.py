"""Text to instances: what the readers of two or more tasks use. Nothing in this package knows a task."""
