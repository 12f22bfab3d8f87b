"""From records to results: the predictors of the tasks, `allennlp predict`, `load`, and explanations."""
