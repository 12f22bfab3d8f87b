"""The base classes of the predictors. Nothing in this package knows a task."""
