"""Archives of models: opening them safely, slim archives, and the models that come trained."""
