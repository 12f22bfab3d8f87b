import importlib.util

collect_ignore_glob = [] if importlib.util.find_spec("fastapi") else ["*_test.py"]
"""Without the extra `serve` there is nothing to test."""
