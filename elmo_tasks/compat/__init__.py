"""
Every change that is made to AllenNLP 2.10.1 at run time, by the programs that get it.

- `WITH_ALLENNLP`: every program that imports AllenNLP, by the `.pth` file of the installation. Its imports
  change, and nothing else;
- `TO_RUN` (`running.py`) and `TO_BE_RIGHT` (`correctness.py`): every program that also imports the suite, by
  its own `import elmo_tasks` or as AllenNLP's plug-in, which `Predictor.from_path` imports too;
- `OF_COMMAND` (`command.py`): the process of the command `allennlp`, and those that it spawns.

AllenNLP's own ELMo is replaced by an import of `elmo_tasks.drop_in` alone.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from elmo_tasks.compat import command, correctness, running

__all__ = ["CHANGES", "OF_COMMAND", "TO_BE_RIGHT", "TO_RUN", "WITH_ALLENNLP", "Change", "make"]


class Change(NamedTuple):
    """A change to AllenNLP. A test shows that AllenNLP fails without it."""

    apply: Callable[[], None] | None
    """Makes the change, once. `None` if it is made elsewhere."""
    problem: str
    changed: str
    test: str
    """The file below `tests/`, and the name of the test in it."""


WITH_ALLENNLP = (  # by placeholders/_elmo_tasks_imports
    Change(
        None,
        "importing AllenNLP needs torchvision and fairscale, takes seconds for packages that most commands "
        "never use, and tries to download NLTK's data",
        "the import statements of AllenNLP",
        "compat/imports_test.py::TestPlaceholders::test_no_other_module_sees_one",
    ),
    Change(
        None,
        "`--include-package elmo_tasks` imports every module, the drop-in and optional extras too; and the "
        "import of plug-ins runs a module of the user that has the name of one of their sub-packages",
        "import_module_and_submodules in allennlp.common.util",
        "compat/commands_test.py::test_a_module_named_as_a_sub_package_is_not_run",
    ),
    Change(
        None,  # made where the name is used, by placeholders/_elmo_tasks_imports
        "transformers 4.49 dropped AdamW, and setuptools 82 pkg_resources: the optimizer huggingface_adamw "
        "and the package rouge fail",
        "PyTorch's AdamW, and a function, in their place",
        "compat/imports_test.py::TestDeferred::test_names_that_are_gone",
    ),
)

TO_RUN = (
    Change(
        running.restore_reduce_on_plateau,
        "PyTorch 2.7 dropped `verbose`, which AllenNLP passes on: a TypeError",
        "the registered scheduler reduce_on_plateau, which now logs by itself",
        "compat/repairs_test.py::TestReduceOnPlateau::test_stock_fails",
    ),
    Change(
        running.allow_numpy_numbers_in_checkpoints,
        "since PyTorch 2.6 `torch.load` refuses NumPy's float64 and bool, which a training state holds",
        "the types that `torch.load` accepts: these two, which cannot run code",
        "compat/repairs_test.py::TestCheckpoints::test_numpy_numbers_are_loaded",
    ),
    Change(
        running.take_current_names_of_amp,
        "AllenNLP enters `torch.cuda.amp.autocast`, a deprecated name, for each batch: a warning each time",
        "amp of the trainer and of DdpAccelerator: PyTorch's current names",
        "compat/repairs_test.py::test_training_resumes_and_its_archive_loads",
    ),
    Change(
        running.repair_loader_processes,
        "since Python 3.11.5 a spawned worker of a data loader does not start: its lock is made for forks; "
        "a worker seeds `random` by chance, so that the order of its batches differs from run to run; and a "
        "forked one outlives a killed run",
        "MultiProcessDataLoader._start_instance_workers, _start_batch_workers, _instance_worker, "
        "_batch_worker, _join_workers; on Windows __init__, which takes spawn in place of fork",
        "compat/repairs_test.py::TestLoaderProcesses::test_stock_cannot_start_them",
    ),
    Change(
        running.copy_where_links_fail,
        "a training ends after its first epoch in a folder without hard links, such as a mounted drive",
        "hardlink_or_copy of the trainer, which AllenNLP lets copy after two errors of many alone",
        "compat/repairs_test.py::test_a_file_system_without_hard_links",
    ),
    Change(
        running.pickle_characters_encoder,
        "a model that reads characters without dropout cannot be pickled: its encoder has a lambda",
        "TokenCharactersEncoder.__init__: a function with a name",
        "pipeline/tasks_test.py::test_a_pickled_predictor_and_model",
    ),
    Change(
        running.find_predictor_of_loaded_model,
        "a model of type from_archive has no predictor: AllenNLP asks the class `Model` for it",
        "Predictor.from_archive",
        "compat/repairs_test.py::test_the_predictor_of_a_model_from_an_archive",
    ),
    Change(
        running.tokenize_for_transformers,
        "nothing named `pretrained_transformer` works: transformers makes no tokenizer with the argument "
        "`add_special_tokens`, and since 5.0 no tokenizer has all methods that AllenNLP calls",
        "cached_transformers.get_tokenizer, PretrainedTransformerTokenizer.__init__",
        "compat/transformers_test.py::test_stock_fails",
    ),
    Change(
        running.split_by_rules_without_a_model,
        "most readers and predictors of AllenNLP download `en_core_web_sm`, and need only its rules",
        "SpacyTokenizer.__init__: the rules without the model, unless parts of speech or parses are needed",
        "drop_in/archive_test.py::test_it_is_loaded_served_and_run_resumably",
    ),
    Change(
        running.take_gojsonnet,
        "jsonnet has no wheel for ARM Linux",
        "evaluate_file and evaluate_snippet in allennlp.common.params, where gojsonnet is installed",
        "compat/training_test.py::test_gojsonnet_where_jsonnet_is_not_installed",
    ),
    Change(
        running.read_local_configs,
        "a config in a file imports the clients of all stores, and one of the project is not found by name",
        "cached_path in allennlp.common.params",
        "stock_commands_test.py::test_names_of_the_project_are_found_anywhere_after_the_users_own",
    ),
)

TO_BE_RIGHT = (
    Change(
        correctness.resume_moving_averages,
        "a resumed average follows the checkpoint's copies of the parameters, and never reaches the model",
        "MovingAverage.load_state_dict",
        "compat/repairs_test.py::TestMovingAverage::test_stock_fails",
    ),
    Change(
        correctness.count_batches_trained,
        "the training loss of an epoch that is resumed half-way is half as large: its sum over the later "
        "batches is divided by the number of all; and data without a batch, as with `drop_last`, train "
        "nothing silently",
        "GradientDescentTrainer._train_epoch",
        "compat/repairs_test.py::TestTrainingLoss::test_stock_fails",
    ),
    Change(
        correctness.average_over_accumulated_batches,
        "with `use_amp` and `num_gradient_accumulation_steps` gradients are added up, not averaged, so that "
        "more steps are a higher learning rate and more clipping",
        "MixedPrecisionBackwardCallback.on_backward",
        "compat/repairs_test.py::test_accumulated_gradients_of_mixed_precision",
    ),
    Change(
        correctness.warn_of_idle_regularizers,
        "a regularizer whose regex fits no parameter does nothing, as one of `scalar_parameters` where our "
        "embedder replaces AllenNLP's",
        "RegularizerApplicator.__call__: a warning at its first call",
        "compat/repairs_test.py::test_a_regularizer_without_parameters_is_warned_of",
    ),
    Change(
        correctness.take_installed_models,
        "an archive that is opened downloads models of spaCy and transformers",
        "allennlp.common.util.spacy_download, cached_transformers.get and get_tokenizer",
        "robustness/archives_test.py::test_opening_fetches_nothing",
    ),
    Change(
        correctness.read_vectors_of_all_kinds,
        "no word of vectors with tabs is found, binary ones end in a UnicodeDecodeError, and errors name "
        "neither file nor line",
        "EmbeddingsTextFile: read by `vectors.files`, also for `vocabulary.pretrained_files`",
        "compat/repairs_test.py::TestVectors::test_stock_fails",
    ),
    Change(
        correctness.open_archives_safely,
        "an archive may write files outside its folder, and its config may run any Python code; damaged "
        "archives end in tracebacks that do not name them; and a vocabulary is not found by all that names "
        "an archive",
        "allennlp.models.archival.load_archive and extracted_archive, allennlp.nn.util.read_state_dict, "
        "Registrable.resolve_class_name, Vocabulary.from_files",
        "archives/opening_test.py::TestUnpacking::test_stock_writes_outside",
    ),
    Change(
        correctness.let_evaluate_take_its_options,
        "`allennlp evaluate` refuses --batch-size with a batch sampler, overwrites its input, loses metrics "
        "of data with equal names, scores only the `batches_per_epoch` of the training, and writes "
        "predictions a batch a line in the order of a sampler",
        "allennlp.commands.evaluate.evaluate_from_archive and DataLoader, SimpleEvaluator.__call__",
        "compat/commands_test.py::TestEvaluate::test_batches_of_another_size",
    ),
    Change(
        correctness.check_data_first,
        "a wrong path of data for validation or test is found after an epoch, or after the whole training; "
        "and `evaluate_on_test` does nothing without test data, and waits for ever in several processes",
        "TrainModel.from_partial_objects: their first record is read before anything else",
        "compat/training_test.py::test_wrong_data_are_found_before_training",
    ),
    Change(
        correctness.repair_recovery,
        "`train --recover` ends in a KeyError where a key is new, and refuses to train a finished run for "
        "more epochs; `train --force` removes data in the folder of the run, and an error does not name it",
        "allennlp.training.util.create_serialization_dir, Scheduler.load_state_dict",
        "compat/training_test.py::TestRecover::test_it_names_the_keys_that_differ",
    ),
    Change(
        correctness.check_vocabulary_of_pretrained,
        "a `_pretrained` module of another vocabulary gives each word the vector of another, in an archive "
        "that cannot be opened",
        "Archive.extract_module, TrainModel.__init__",
        "compat/training_test.py::test_a_pretrained_module_of_another_vocabulary",
    ),
    Change(
        correctness.check_trainer,
        "the trainer drops keys that it does not know, misses a metric only after an epoch, takes a device "
        "by its number alone, names none that is missing, and does not say where it diverges",
        "GradientDescentTrainer.from_params and train, allennlp.common.util.int_to_device",
        "compat/training_test.py::test_a_metric_that_the_model_will_not_have",
    ),
    Change(
        correctness.warn_of_dropped_keys,
        "an override of a block drops the other keys of the block silently",
        "with_overrides in allennlp.common.params: a warning",
        "compat/commands_test.py::test_a_block_in_place_of_another_is_warned_of",
    ),
)

OF_COMMAND = (
    Change(
        command.replace_sigterm,
        "SIGTERM raises an Exception, which `predict` takes for an error of a line, so that it continues",
        "SigTermReceived in allennlp.common.util: a BaseException, as KeyboardInterrupt is",
        "compat/command_output_test.py::test_sigterm_is_no_error_of_a_line",
    ),
    Change(
        command.print_metrics,
        "`allennlp evaluate` does not show the metrics that no file takes",
        "allennlp.commands.evaluate.evaluate_from_archive",
        "compat/commands_test.py::TestEvaluate::test_the_command_prints_the_metrics_that_no_file_takes",
    ),
    Change(
        command.compare_whole_numbers,
        "`allennlp diff` fails on whole numbers in a state dict, such as the bytes of an ELMo's options",
        "allennlp.commands.diff.checkpoint_diff",
        "compat/commands_test.py::test_checkpoints_with_elmo_are_compared",
    ),
    Change(
        command.tell_how_training_ends,
        "`allennlp train` ends without its scores, the number of instances that they are of, the reason for "
        "its end and the next command; Ctrl-C does not say what is kept",
        "train_model_from_file and TrainModel.finish",
        "compat/command_output_test.py::test_the_end_of_a_training",
    ),
    Change(
        command.predict_by_batches_of_any_size,
        "`allennlp predict` runs one input at a time unless it is told otherwise",
        "Predict.add_subparser: --batch-size is None by default",
        "compat/commands_test.py::test_predict_takes_its_own_batch_size",
    ),
    Change(
        command.read_overrides,
        "`build-vocab` and `count-instances` drop their --overrides",
        "build_vocab_from_args, count_instances_from_args",
        "compat/commands_test.py::test_overrides_of_commands_that_read_the_training_data",
    ),
    Change(
        None,  # suite.py calls command.replace_predict, as its classes come from elmo_tasks.pipeline
        "`allennlp predict` loses the results before a bad line in a batch, and those that are not yet on "
        "the disk",
        "allennlp.commands.predict._PredictManager and _get_predictor",
        "compat/commands_test.py::test_predict_keeps_results_before_a_bad_line",
    ),
    Change(
        command.name_what_is_wrong_in_configs,
        "errors in configs and overrides are tracebacks",
        "Params.from_file, and parse_overrides in allennlp.common.params",
        "compat/training_test.py::test_configs_and_overrides_that_are_wrong",
    ),
    Change(
        command.end_in_one_line,
        "an error of the user ends a command in a traceback, and SIGTERM with exit code 1, after other "
        "processes of the run have trained to the end",
        "sys.excepthook, prepare_global_logging, which sets it again, and FromParams.from_params",
        "compat/command_output_test.py::test_training_logs_the_faults_of_the_program_alone",
    ),
    Change(
        command.write_lines_to_files,
        "in a file, progress bars are thousands of lines, and nothing says how an epoch went",
        "Tqdm.tqdm, and the default callbacks of the trainer: a line for each epoch",
        "compat/command_output_test.py::test_stock_writes_bars_to_a_file",
    ),
)

CHANGES = (*WITH_ALLENNLP, *TO_RUN, *TO_BE_RIGHT, *OF_COMMAND)


def make(changes: Iterable[Change]) -> None:
    """Makes changes of this table that are not made elsewhere."""
    for change in changes:
        if change.apply is not None:
            change.apply()
