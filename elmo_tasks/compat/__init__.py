"""
Every change that is made to AllenNLP 2.10.1 at run time, by the programs that get it.

Any program that imports AllenNLP gets other import statements in AllenNLP's modules, by the `.pth` file of
the installation, see `placeholders/_elmo_tasks_imports.py`. AllenNLP's own ELMo is replaced by an import of
`elmo_tasks.drop_in` alone. All else is listed here; the docstring of each change says what AllenNLP does
without it.
"""

from collections.abc import Callable, Iterable
from functools import cache

from elmo_tasks.compat import command, correctness, running

__all__ = ["OF_COMMAND", "TO_BE_RIGHT", "TO_RUN", "make", "make_for_all"]

TO_RUN = (
    running.restore_reduce_on_plateau,
    running.allow_numpy_numbers_in_checkpoints,
    running.take_current_names_of_amp,
    running.repair_loader_processes,
    running.copy_where_links_fail,
    running.pickle_characters_encoder,
    running.find_predictor_of_loaded_model,
    running.tokenize_for_transformers,
    running.split_by_rules_without_a_model,
    running.take_gojsonnet,
    running.read_local_configs,
)
"""
What AllenNLP needs to run: for every program that imports the suite, by its own `import elmo_tasks` or as
AllenNLP's plug-in, which `Predictor.from_path` imports too.
"""
TO_BE_RIGHT = (
    correctness.resume_moving_averages,
    correctness.count_batches_trained,
    correctness.average_over_accumulated_batches,
    correctness.warn_of_idle_regularizers,
    correctness.take_installed_models,
    correctness.read_vectors_of_all_kinds,
    correctness.open_archives_safely,
    correctness.let_evaluate_take_its_options,
    correctness.check_data_first,
    correctness.repair_recovery,
    correctness.check_vocabulary_of_pretrained,
    correctness.read_overrides,
    correctness.name_old_keys,
    correctness.check_trainer,
    correctness.warn_of_dropped_keys,
)
"""Against wrong results and lost data: for the same programs."""
OF_COMMAND = (
    command.replace_sigterm,
    command.print_metrics,
    command.compare_whole_numbers,
    command.name_missing_package,
    command.pack_archives_quickly,
    command.suggest_names,
    command.tell_how_training_ends,
    command.drop_false_alarms,
    command.let_predict_take_its_options,
    command.name_what_is_wrong_in_configs,
    command.end_in_one_line,
    command.write_lines_to_files,
)
"""For the process of the command `allennlp`, and those that it spawns; and `command.replace_predict`."""


def make(changes: Iterable[Callable[[], None]]) -> None:
    for change in changes:
        change()


@cache
def make_for_all() -> None:
    """Makes the changes for every program, once, even if the suite is imported again after an error."""
    make((*TO_RUN, *TO_BE_RIGHT))
