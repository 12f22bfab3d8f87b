"""
Waits for the first import of AllenNLP, which `_elmo_tasks_stand_ins` then answers.

The `.pth` file of `setup.py` waits by itself, and calls `find_first`. `install` is for a Python without it.
"""

import sys


class Finder:
    """Answers for AllenNLP alone; the other finders of `sys.meta_path` find everything else."""

    @staticmethod
    def find_spec(name, path=None, target=None):  # type: ignore[no-untyped-def]
        if name != "allennlp":
            return None
        import _elmo_tasks_stand_ins

        Finder.find_spec = find = _elmo_tasks_stand_ins.Finder(Finder).find_spec
        return find(name, path, target)


def find_first(path):  # type: ignore[no-untyped-def]
    """Finds AllenNLP, and takes the place of the finder of the `.pth` file, which a Python may read twice."""
    others = [finder for finder in sys.meta_path if getattr(finder, "__module__", "") != "site"]
    sys.meta_path[:] = [Finder, *others]
    return Finder.find_spec("allennlp", path)


def install() -> None:
    if Finder not in sys.meta_path:
        sys.meta_path.insert(0, Finder)  # type: ignore[arg-type]
