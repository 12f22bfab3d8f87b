"""
Makes wheels of AllenNLP, and of cached-path, that can be installed today from the official ones:
`python tools/wheelhouse.py dist`.

The code and the licence are not changed. The requirements change as in `requirements/overrides.txt`, which
`make lock` uses too. The version gets the local part `repinned`: `allennlp==2.10.1` accepts and prefers it.
"""

import base64
import csv
import hashlib
import io
import subprocess
import sys
import tempfile
import zipfile
from email import message_from_bytes, policy
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

REQUIREMENTS = Path(__file__).resolve().parents[1] / "requirements"
LOCAL = "repinned"
NOTICE = f"""The requirements in METADATA differ from the official wheel's, which today cannot be met
together; so does the version, by +{LOCAL}. Nothing else was changed.
"""
PACKAGES = ("allennlp", "allennlp-models", "cached-path")

Overrides = dict[str, Requirement | None]
"""By the names of packages; `None` drops one."""


def main(folder: Path) -> None:
    """
    Downloads the official wheels of `requirements/main.lock`, and writes the changed ones to `folder`,
    with the lock as `constraints.txt`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lock = (REQUIREMENTS / "main.lock").read_text(encoding="utf-8")
    (folder / "constraints.txt").write_text(lock, encoding="utf-8")
    overrides = all_overrides(lock)
    with tempfile.TemporaryDirectory() as download:
        command = ["pip", "download", "--quiet", "--no-deps", "--dest", download]
        stock = [str(overrides[name]) for name in PACKAGES]
        subprocess.run([sys.executable, "-m", *command, *stock], check=True)
        for wheel in sorted(Path(download).glob("*.whl")):
            print(repin(wheel, folder, overrides))


def all_overrides(lock: str) -> Overrides:
    """Reads `requirements/overrides.txt`, and adds the locked `PACKAGES`: newer versions have bounds."""
    overrides = read_overrides((REQUIREMENTS / "overrides.txt").read_text(encoding="utf-8"))
    locked = {need.name: need for need in map(Requirement, lock.splitlines())}
    return overrides | {name: locked[name] for name in PACKAGES}


def read_overrides(text: str) -> Overrides:
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    needs = [Requirement(line) for line in lines if line]
    dropped = [need for need in needs if str(need.marker) == 'python_version < "3"']
    return {canonicalize_name(need.name): None if need in dropped else need for need in needs}


def repin(wheel: Path, folder: Path, overrides: Overrides) -> Path:
    """Writes a copy of `wheel` with other requirements to `folder`, and returns its path."""
    name, version, tags = wheel.name.split("-", 2)
    old, new = (f"{name}-{each}.dist-info" for each in (version, f"{version}+{LOCAL}"))
    target = folder / f"{name}-{version}+{LOCAL}-{tags}"
    with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as copy:
        record = []
        members = [each for each in source.infolist() if each.filename != f"{old}/RECORD"]
        for member in [*members, zipfile.ZipInfo(f"{old}/REPINNED.txt")]:
            content = NOTICE.encode() if member not in members else source.read(member)
            if member.filename == f"{old}/METADATA":
                content = _metadata(content, overrides)
            member.filename = member.filename.replace(old, new, 1)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record.append((member.filename, f"sha256={digest}", len(content)))
            copy.writestr(member, content, zipfile.ZIP_DEFLATED)
        lines = io.StringIO()
        csv.writer(lines, lineterminator="\n").writerows([*record, (f"{new}/RECORD", "", "")])
        copy.writestr(f"{new}/RECORD", lines.getvalue())
    return target


def repin_needs(lines: list[str], overrides: Overrides) -> list[Requirement]:
    """Returns the needs of a wheel as the overrides have them. AllenNLP's extras are for its developers."""
    needs = [Requirement(line) for line in lines]
    needs = [need for need in needs if need.marker is None or "extra" not in str(need.marker)]
    overridden = (overrides.get(canonicalize_name(need.name), need) for need in needs)
    return [need for need in overridden if need is not None]


def _metadata(content: bytes, overrides: Overrides) -> bytes:
    about = message_from_bytes(content, policy=policy.compat32)
    needs = repin_needs(about.get_all("Requires-Dist", []), overrides)
    for field in ("Requires-Dist", "Provides-Extra"):
        del about[field]
    for need in needs:
        about["Requires-Dist"] = str(need)
    version = about["Version"]
    about.replace_header("Version", f"{version}+{LOCAL}")
    return about.as_bytes()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
