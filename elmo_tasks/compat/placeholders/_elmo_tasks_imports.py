"""
Waits for the first import of AllenNLP, which `_elmo_tasks_stand_ins` then answers.

A `.pth` file calls `install` when any Python of the environment starts. So this module does nothing else.
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


def install() -> None:
    if Finder not in sys.meta_path:
        sys.meta_path.insert(0, Finder)  # type: ignore[arg-type]
