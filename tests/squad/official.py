"""What the official scripts share, and words that they normalise."""

import importlib.util
from pathlib import Path

TEXT = (
    "the The A an theme a.b the-end THE an' 1,000 U.S. cat cats cat's Zoë ½ “the” — … İstanbul ß $5 % . ' "
    "x_y 猫 a…the \u0301a C++ @ don't \u2013 don\u2019t 0 ٣ a\u00a0b the\u2009cat \u200bthe \x1fthe \tan"
)


WORDS = TEXT.split(" ")


def official():
    """allennlp-models' copy of what evaluate-v2.0.py has; from its file, since its package imports slowly."""
    import allennlp_models

    path = Path(allennlp_models.__file__).parent / "rc/tools/squad.py"
    spec = importlib.util.spec_from_file_location("official_squad", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


OFFICIAL = official()
