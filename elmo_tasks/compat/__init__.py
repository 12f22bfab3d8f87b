"""What AllenNLP 2.10.1 needs in order to run on current PyTorch, and to be quiet and helpful; nothing else.

`placeholders/` lets AllenNLP be imported without the packages that text does not need. `nltk_data/`
stops a download at import. `repairs.py` mends, once elmo_tasks.suite is imported, what the installed
versions break, and `commands.py` where AllenNLP's own commands lose what they were given. `quiet.py` is
about progress bars; `hints.py` has errors name the nearest right name; `processes.py` ends processes whose
parent was killed. `wrapping.py` is how a function of AllenNLP gets something of ours around it.
"""

from elmo_tasks.compat.repairs import repair

__all__ = ["repair"]
