"""What AllenNLP imports and does not need: two packages that are not installed, and some that take seconds.

AllenNLP imports torchvision and fairscale wherever it is imported itself; and with it come nltk, SciPy's
statistics, scikit-learn and transformers' models. A `.pth` file calls `install` when Python starts,
before anything of AllenNLP can be there. When one of `MODULES` or `DEFERRED` is executed later, its import
statements find a placeholder for what is not installed, and a `Deferred` for what can wait. Neither is on
`sys.path` or in `sys.modules`, so that `importlib.util.find_spec("torchvision")` says what is true, and what
others import is what it was.
"""

import builtins
import sys

MODULES = (
    "allennlp.data.image_loader",
    "allennlp.modules.vision.grid_embedder",
    "allennlp.modules.vision.region_detector",
    "allennlp.nn.checkpoint.fairscale_checkpoint_wrapper",
    "allennlp.nn.parallel.fairscale_fsdp_accelerator",
)
"""Those of AllenNLP that import a package which text does not need."""
DEFERRED = {
    "allennlp.common.util": (),
    "allennlp.common.cached_transformers": ("transformers",),
    "allennlp.data.data_loaders.data_collator": ("transformers",),
    "allennlp.fairness.bias_direction": ("sklearn",),
    "allennlp.fairness.bias_mitigators": ("scipy", "sklearn"),
    "allennlp.fairness.fairness_metrics": ("scipy",),
    "allennlp.modules.transformer.activation_layer": ("transformers",),
    "allennlp.training.metrics.auc": ("sklearn",),
    "allennlp.training.metrics.evalb_bracketing_scorer": ("nltk",),
    "allennlp.training.metrics.spearman_correlation": ("scipy",),
    "allennlp_models.classification.dataset_readers.stanford_sentiment_tree_bank": ("nltk",),
    "allennlp_models.common.ontonotes": ("nltk",),
    "allennlp_models.coref.metrics.conll_coref_scores": ("scipy",),
    "allennlp_models.generation.models.bart": ("transformers",),
    "allennlp_models.lm.modules.language_model_heads.bert": ("transformers",),
    "allennlp_models.lm.modules.language_model_heads.gpt2": ("transformers",),
    "allennlp_models.rc.tools.drop": ("scipy",),
    "allennlp_models.structured_prediction.dataset_readers.penn_tree_bank": ("nltk",),
    "allennlp_models.structured_prediction.models.constituency_parser": ("nltk",),
    "allennlp_models.structured_prediction.models.srl_bert": ("transformers",),
    "allennlp_models.structured_prediction.predictors.constituency_parser": ("nltk",),
}
"""
Those that use a package inside functions and annotations alone, and the package. The first looks for the
package `checklist` before each module of AllenNLP that it imports: what is missing is looked for once.
"""
POSTPONED = tuple(f"allennlp_models.rc.tools.{tool}" for tool in ("narrativeqa", "orb", "orb_utils"))
"""Tools that nothing else uses, and AllenNLP imports. They are executed when they are asked for a name."""
_HANDLED = frozenset((*MODULES, *DEFERRED, *POSTPONED))


class Finder:
    """Finds these modules as the other finders do, and has them executed with an import of their own."""

    @staticmethod
    def find_spec(name, path=None, target=None):  # type: ignore[no-untyped-def]
        if name not in _HANDLED:
            return None
        specs = (finder.find_spec(name, path, target) for finder in sys.meta_path if finder is not Finder)
        spec = next(filter(None, specs), None)
        if spec is not None:
            execute = spec.loader.exec_module

            def exec_module(module):  # type: ignore[no-untyped-def]
                if name in POSTPONED:
                    from _elmo_tasks_deferred import postpone

                    postpone(module, execute)
                    return
                load = _import if name in MODULES else _defer(DEFERRED[name])
                module.__builtins__ = {**vars(builtins), "__import__": load}
                execute(module)

            spec.loader.exec_module = exec_module
        return spec


def _import(name, globals=None, locals=None, fromlist=(), level=0):  # type: ignore[no-untyped-def]
    try:
        return builtins.__import__(name, globals, locals, fromlist, level)
    except ModuleNotFoundError as error:
        from _elmo_tasks_placeholder import placeholders

        if error.name not in placeholders:
            raise
        return placeholders[name if fromlist else error.name]


def _defer(packages):  # type: ignore[no-untyped-def]
    missing = {}

    def load(name, globals=None, locals=None, fromlist=(), level=0):  # type: ignore[no-untyped-def]
        package = name.partition(".")[0]
        if name in missing:
            raise ModuleNotFoundError(missing[name], name=name)
        if level or package not in packages:
            try:
                return builtins.__import__(name, globals, locals, fromlist, level)
            except ModuleNotFoundError as error:
                missing[error.name] = str(error)
                raise
        from _elmo_tasks_deferred import Deferred

        return Deferred(name if fromlist else package)

    return load


def install() -> None:
    if Finder not in sys.meta_path:
        sys.meta_path.insert(0, Finder)  # type: ignore[arg-type]
