"""
Makes `elmo_tasks` known to AllenNLP wherever AllenNLP looks for plug-ins.

AllenNLP imports three plug-ins by name if it finds them: allennlp_models, allennlp_semparse and
allennlp_server. All others must be listed in a file `.allennlp_plugins`. The third is a web demo whose
project has been closed. This placeholder takes its place, so that `Predictor.from_path` knows the components
of elmo_tasks from any directory; the command `allennlp` imports them by itself. Where the real
allennlp_server is installed, it is found first, and `.allennlp_plugins` is needed. `ELMO_TASKS_PLUGIN=0` in
the environment leaves elmo_tasks out, for users who have it beside other work in AllenNLP.
"""

import os

if os.environ.get("ELMO_TASKS_PLUGIN") != "0":
    import elmo_tasks  # noqa: F401
