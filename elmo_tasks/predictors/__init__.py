"""The base classes of the tasks' predictors, and `allennlp predict` with them."""
