"""
Makes `elmo_tasks` known to AllenNLP wherever AllenNLP is started.

AllenNLP imports three plug-ins by name if it finds them: allennlp_models, allennlp_semparse and
allennlp_server. All others must be listed in a file `.allennlp_plugins` of the working directory or of the
home directory. The third is a web demo whose project has been closed. This placeholder takes its place, so
that the `allennlp` command, `python -m allennlp`, `Predictor.from_path` and spawned workers know the
components of elmo_tasks from any directory. Where the real allennlp_server is installed, it is found first,
and `.allennlp_plugins` is needed. `ELMO_TASKS_PLUGIN=0` in the environment leaves elmo_tasks out, for users
who have it beside other work in AllenNLP.
"""

import os

if os.environ.get("ELMO_TASKS_PLUGIN") != "0":
    try:
        import elmo_tasks  # noqa: F401
    except ModuleNotFoundError as error:
        # AllenNLP logs a ModuleNotFoundError of a plug-in, and continues without it.
        raise RuntimeError(f"elmo_tasks cannot be imported: {error}") from error
