"""Archives of trained models, which `elmo_tasks.load` opens by their names."""
