"""Models of tasks in folders that need NumPy and onnxruntime alone."""

GRAPH, SETTINGS, PAGE = "model.onnx", "model.json", "predict.py"
TYPES = ("elmo_ner", "elmo_sst", "elmo_snli", "elmo_classifier", "elmo_linear", "elmo_squad")
"""The models that `folder.write_model` takes."""
