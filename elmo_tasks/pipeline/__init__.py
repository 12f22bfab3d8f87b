"""
From records to results: the predictors of the tasks, `allennlp predict`, `load`, and explanations.

`json_lines` reads records, and `predictor` turns a batch of them into results; all else calls these two.
"""
