"""Where the files are that come with the project, in a checkout and in an installed wheel."""

from pathlib import Path

_PACKAGE = Path(__file__).parent


def bundled(name: str) -> Path:
    """
    `fixtures/...`, `pretrained/...` or `training_configs/...`: beside the package in a checkout, inside it
    in a wheel.
    """
    inside = _PACKAGE / name
    return inside if inside.exists() else _PACKAGE.parent / name
