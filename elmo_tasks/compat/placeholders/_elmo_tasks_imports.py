"""
Imports of AllenNLP without packages that text does not need, and later for packages that take seconds.

AllenNLP imports torchvision and fairscale wherever it is imported itself; and with it come spaCy,
transformers, the clients of cached_path's stores, nltk, SciPy's statistics and scikit-learn. A `.pth` file
calls `install` when Python starts, before any import of AllenNLP. When one of `MODULES` or `DEFERRED` is
executed later, its import statements find a placeholder for a package that is not installed, and a `Deferred`
for a package that can wait. Neither is on `sys.path` or in `sys.modules`, so that
`importlib.util.find_spec("torchvision")` tells the truth, and the imports of other modules are what they
were.

The finder also sees the first import of AllenNLP or of elmo_tasks, and tells OpenMP to wait briefly, and a
command of AllenNLP to log warnings alone, except for two that say what they found in the log alone.
"""

import builtins
import gc
import os
import sys

MODULES = (
    "allennlp.data.image_loader",
    "allennlp.modules.vision.grid_embedder",
    "allennlp.modules.vision.region_detector",
    "allennlp.nn.checkpoint.fairscale_checkpoint_wrapper",
    "allennlp.nn.parallel.fairscale_fsdp_accelerator",
)
"""The modules of AllenNLP that import a package which text does not need."""
DEFERRED = {
    "allennlp": ("spacy", "transformers"),
    "allennlp.common.cached_transformers": ("transformers",),
    "allennlp.common.file_utils": ("cached_path",),
    "allennlp.common.push_to_hf": ("huggingface_hub",),
    "allennlp.common.util": ("spacy",),
    "allennlp.data.data_loaders.data_collator": ("transformers",),
    "allennlp.data.fields.text_field": ("spacy",),
    "allennlp.data.token_indexers.spacy_indexer": ("spacy",),
    "allennlp.data.tokenizers.pretrained_transformer_tokenizer": ("transformers",),
    "allennlp.data.tokenizers.sentence_splitter": ("spacy",),
    "allennlp.data.tokenizers.spacy_tokenizer": ("spacy",),
    "allennlp.data.vocabulary": ("transformers",),
    "allennlp.fairness.bias_direction": ("sklearn",),
    "allennlp.fairness.bias_mitigators": ("scipy", "sklearn"),
    "allennlp.fairness.fairness_metrics": ("scipy",),
    "allennlp.modules.token_embedders.pretrained_transformer_embedder": ("transformers",),
    "allennlp.modules.transformer.activation_layer": ("transformers",),
    "allennlp.training.callbacks.tensorboard": ("tensorboardX",),
    "allennlp.training.learning_rate_schedulers.learning_rate_scheduler": ("transformers",),
    "allennlp.training.metrics.auc": ("sklearn",),
    "allennlp.training.metrics.evalb_bracketing_scorer": ("nltk",),
    "allennlp.training.metrics.spearman_correlation": ("scipy",),
    "allennlp.training.optimizers": ("transformers",),
    "allennlp_models.classification.dataset_readers.stanford_sentiment_tree_bank": ("nltk",),
    "allennlp_models.common.ontonotes": ("nltk",),
    "allennlp_models.coref.metrics.conll_coref_scores": ("scipy",),
    "allennlp_models.coref.predictors.coref": ("spacy",),
    "allennlp_models.generation.dataset_readers.cnn_dm": ("ftfy",),
    "allennlp_models.generation.models.bart": ("transformers",),
    "allennlp_models.lm.modules.language_model_heads.bert": ("transformers",),
    "allennlp_models.lm.modules.language_model_heads.gpt2": ("transformers",),
    "allennlp_models.rc.tools.drop": ("scipy",),
    "allennlp_models.structured_prediction.dataset_readers.penn_tree_bank": ("nltk",),
    "allennlp_models.structured_prediction.dataset_readers.srl": ("transformers",),
    "allennlp_models.structured_prediction.dataset_readers.universal_dependencies": ("conllu",),
    "allennlp_models.structured_prediction.models.constituency_parser": ("nltk",),
    "allennlp_models.structured_prediction.models.srl_bert": ("transformers",),
    "allennlp_models.structured_prediction.predictors.constituency_parser": ("nltk", "spacy"),
    "allennlp_models.structured_prediction.predictors.srl": ("spacy",),
    "allennlp_models.vision.dataset_readers.flickr30k": ("transformers",),
    "cached_path": ("cached_path.schemes",),
    "cached_path._cached_path": ("cached_path.schemes",),
    "cached_path.bytes_range": ("cached_path.schemes",),
    "cached_path.progress": ("rich",),
    "rouge.rouge": ("pkg_resources",),
    "rouge.rouge_augmented": ("pkg_resources",),
}
"""
Modules, and the packages, or neighbours by their whole name, that they use only inside functions and
annotations, or to derive a class from.
`allennlp.common.util` looks for the package `checklist` before each module of AllenNLP that it imports; a
missing package is looked for once.
"""
POSTPONED = (
    "allennlp_models.rc.tools.narrativeqa",
    "allennlp_models.rc.tools.orb",
    "allennlp_models.rc.tools.orb_utils",
    "allennlp_models.structured_prediction.predictors.util",
    "allennlp_models.structured_prediction.tools.convert_openie_to_conll",
)
"""Tools that AllenNLP imports and does not use. They are executed when they are asked for a name."""
COMMAND = ("allennlp", "allennlp.commands", "allennlp_server")
"""
The modules that import most of what an `allennlp` command needs, the last one this suite. The garbage
collector would find nothing in them, and would take a quarter of the start.
"""
SPINS = "5000"
"""
How often a thread of OpenMP looks for work before it sleeps; libgomp's default is 300,000, some milliseconds.
With 1,000, ELMo is slower on a quiet machine.
Where other programs want the processor, such threads keep it from those that compute.
"""
_HANDLED = frozenset((*MODULES, *DEFERRED, *POSTPONED, *COMMAND))


class Finder:
    """Finds these modules as the later finders do, with a loader of our own."""

    @staticmethod
    def find_spec(name, path=None, target=None):  # type: ignore[no-untyped-def]
        if name in ("allennlp", "elmo_tasks"):
            _wait_briefly()
            shows_log = "test-install" in sys.argv or "--dry-run" in sys.argv
            of_plugin = _in_command() and os.environ.get("ELMO_TASKS_PLUGIN") != "0"
            if name == "allennlp" and of_plugin and not shows_log:
                os.environ.setdefault("ALLENNLP_LOG_LEVEL", "WARNING")
        if name not in _HANDLED:
            return None
        later = sys.meta_path[sys.meta_path.index(Finder) + 1 :]
        specs = (finder.find_spec(name, path, target) for finder in later)
        spec = next(filter(None, specs), None)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


def _wait_briefly():  # type: ignore[no-untyped-def]
    """Sets `GOMP_SPINCOUNT`, which libgomp reads when PyTorch loads it, where the user has set no policy."""
    if not {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"} & os.environ.keys() and "torch" not in sys.modules:
        os.environ["GOMP_SPINCOUNT"] = SPINS


class _Loader:
    """Executes a module with imports of our own; otherwise it is the loader that was found."""

    def __init__(self, loader):  # type: ignore[no-untyped-def]
        self._loader = loader

    def __getattr__(self, name):  # type: ignore[no-untyped-def]
        return getattr(self._loader, name)

    def exec_module(self, module):  # type: ignore[no-untyped-def]
        module.__loader__ = module.__spec__.loader = self._loader
        execute = _without_collection if module.__name__ in COMMAND and _in_command() else _execute
        execute(self._loader.exec_module, module)


def _execute(execute, module):  # type: ignore[no-untyped-def]
    name = module.__name__
    if name in POSTPONED:
        from _elmo_tasks_stand_ins import postpone

        postpone(module, execute)
        return
    if name in MODULES:
        module.__builtins__ = {**vars(builtins), "__import__": _import}
    elif name in DEFERRED:
        module.__builtins__ = {**vars(builtins), "__import__": _defer(DEFERRED[name])}
    execute(module)


def _without_collection(execute, module):  # type: ignore[no-untyped-def]
    """Executes a module with the garbage collector off, and freezes the objects that it made."""
    gc.disable()
    try:
        _execute(execute, module)
    finally:
        gc.enable()
    gc.freeze()


def _in_command():  # type: ignore[no-untyped-def]
    """Returns whether Python runs `allennlp`, or looks for the module of its option `-m`."""
    folder, name = os.path.split(sys.argv[0] if sys.argv else "")
    return name in ("-m", "allennlp", "allennlp.exe") or os.path.basename(folder) == "allennlp"


def _import(name, globals=None, locals=None, fromlist=(), level=0):  # type: ignore[no-untyped-def]
    try:
        return builtins.__import__(name, globals, locals, fromlist, level)
    except ModuleNotFoundError as error:
        from _elmo_tasks_stand_ins import placeholders

        if error.name not in placeholders:
            raise
        return placeholders[name if fromlist else error.name]


def _defer(packages):  # type: ignore[no-untyped-def]
    missing = {}

    def load(name, globals=None, locals=None, fromlist=(), level=0):  # type: ignore[no-untyped-def]
        path = f"{globals['__package__']}.{name}" if level else name
        package = path if level else name.partition(".")[0]
        if name in missing:
            raise ModuleNotFoundError(missing[name], name=name)
        if path in POSTPONED and level == 1:
            from _elmo_tasks_stand_ins import draft

            return draft(path, load)
        if package not in packages:
            try:
                return builtins.__import__(name, globals, locals, fromlist, level)
            except ModuleNotFoundError as error:
                missing[error.name] = str(error)
                raise
        from _elmo_tasks_stand_ins import Deferred

        return Deferred(path if fromlist else package)

    return load


def install() -> None:
    if Finder not in sys.meta_path:
        sys.meta_path.insert(0, Finder)  # type: ignore[arg-type]
