"""What Peters et al. 2018 vary of ELMo (Tables 2 and 3) and of the training data (Figure 1)."""

from typing import Any, NamedTuple


class Setting(NamedTuple):
    """Three keys of the `elmo` block, and the part of the training data that is seen."""

    placement: str
    layers: str
    mix_l2: float | None
    fraction: float = 1.0

    def __str__(self) -> str:
        """The name of the variant: that of its folder, whichever tables it is in."""
        parts = [self.placement]
        if self.placement != "none":
            parts.append(self.layers)
            if self.mix_l2 is not None:
                parts.append(f"lambda-{self.mix_l2:g}")
        if self.fraction < 1:
            parts.append(f"fraction-{self.fraction:g}")
        return "-".join(parts)

    def overrides(self, config: dict[str, Any], seed: int) -> dict[str, Any]:
        """
        The overrides of the config. A sample is drawn by the run's seed: the same with and without ELMo, and
        the mean over the seeds does not depend on one lucky draw.
        """
        changes = {f"model.elmo.{key}": getattr(self, key) for key in ("placement", "layers", "mix_l2")}
        if self.fraction == 1:
            return changes
        reader = config["dataset_reader"]
        return changes | {
            "dataset_reader": {
                "type": "elmo_sample",
                "reader": reader,
                "fraction": self.fraction,
                "seed": seed,
            },
            "validation_dataset_reader": config.get("validation_dataset_reader", reader),
        }


NO_ELMO = Setting("none", "all", None)


def own_setting(config: dict[str, Any]) -> Setting:
    """The setting of a config that uses its ELMo."""
    block = config["model"]["elmo"]
    return Setting(block.get("placement", "input"), block.get("layers", "all"), block.get("mix_l2"))


def layer_rows(own: Setting) -> dict[str, Setting]:
    """The paper's Table 2."""
    return {
        "no ELMo": NO_ELMO,
        "top layer": own._replace(layers="top", mix_l2=None),
        "all layers, lambda 1": own._replace(layers="all", mix_l2=1.0),
        "all layers, lambda 0.001": own._replace(layers="all", mix_l2=0.001),
    }


def placement_rows(own: Setting) -> dict[str, Setting]:
    """The paper's Table 3."""
    placements = ("input", "input+output", "output")
    return {"no ELMo": NO_ELMO} | {place: own._replace(placement=place) for place in placements}
