"""Where an environment is: by name, by folder, and what is none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stoker.runner.envs import Environment, Unusable, find


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


def conda(prefix: Path) -> Path:
    (prefix / "conda-meta").mkdir(parents=True)
    return prefix


def found(wanted: str, home: Path, **environ: str) -> str:
    return os.fsdecode(find(wanted, str(home), environ).prefix)


def refused(wanted: str, home: Path, **environ: str) -> Unusable:
    with pytest.raises(Unusable) as caught:
        find(wanted, str(home), environ)
    return caught.value


@pytest.mark.parametrize(
    "place",
    ["miniconda3", "anaconda3", "miniforge3", "mambaforge", "micromamba", ".conda",
     ".local/share/mamba"],
)  # fmt: skip
def test_by_name_below_the_usual_roots(home: Path, place: str) -> None:
    prefix = conda(home / place / "envs" / "ml")
    assert found("ml", home) == str(prefix)


def test_by_name_below_the_roots_that_variables_tell(home: Path, tmp_path: Path) -> None:
    one, other = conda(tmp_path / "c" / "envs" / "one"), conda(tmp_path / "m" / "envs" / "other")
    places = {
        "CONDA_EXE": str(tmp_path / "c" / "bin" / "conda"),
        "MAMBA_ROOT_PREFIX": str(tmp_path / "m"),
    }
    assert found("one", home, **places) == str(one)
    assert found("other", home, **places) == str(other)


def test_places_that_are_no_absolute_paths_are_passed_over(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    conda(tmp_path / "envs" / "ml")
    (home / ".condarc").write_text("envs_dirs: [envs]\n")
    assert refused("ml", home, CONDA_EXE="conda", MAMBA_ROOT_PREFIX=".").names == []


def test_by_name_in_the_list_of_all_environments(home: Path, tmp_path: Path) -> None:
    prefix = conda(tmp_path / "data" / "环 境" / "ml")
    (home / ".conda").mkdir()
    lines = f"\n{tmp_path}/gone/other\nnot a path\n{prefix}/\n"
    (home / ".conda" / "environments.txt").write_text(lines)

    assert found("ml", home) == str(prefix)
    assert refused("other", home).code == "environment_missing"


@pytest.mark.parametrize(
    "condarc",
    [
        "channels:\n  - x\nenvs_dirs:\n  - {a}\n  - ~/mine\n",
        "envs_dirs:\n# mine\n- '{a}'  # first\n\n- \"~/mine\"\nchannels: [x]\n",
        "envs_dirs: [{a}, ~/mine]\n",
        "envs_path:\n    -   {a}\n    -   ~/mine\n",
        "envs_dirs: ~/mine # only\n",
    ],
)
def test_by_name_in_the_folders_of_condarc(home: Path, tmp_path: Path, condarc: str) -> None:
    (home / ".condarc").write_text(condarc.replace("{a}", str(tmp_path / "a")))
    prefix = conda(home / "mine" / "ml")
    assert found("ml", home) == str(prefix)


@pytest.mark.parametrize("condarc", ["envs_dirs:", "- x", "envs_dirs: {{", "\xff\x00", "a: [b"])
def test_a_condarc_that_makes_no_sense_is_passed_over(home: Path, condarc: str) -> None:
    (home / ".condarc").write_bytes(condarc.encode("latin-1"))
    assert refused("ml", home).code == "environment_missing"


def test_a_condarc_that_never_ends_is_passed_over(home: Path) -> None:
    os.mkfifo(home / ".condarc")
    assert refused("ml", home).code == "environment_missing"


def test_base_is_the_root_itself(home: Path, tmp_path: Path) -> None:
    root = conda(home / "miniconda3")
    assert found("base", home) == str(root)
    assert find("base", str(home), {}).name == b"base"

    other = conda(tmp_path / "elsewhere")
    (other / "condabin").mkdir()
    (home / ".conda").mkdir()
    (home / ".conda" / "environments.txt").write_text(f"{root}\n{other}\n")
    assert refused("base", home).names == [str(root), str(other)]
    assert refused("elsewhere", home).code == "environment_missing"


def test_the_same_environment_twice_is_one(home: Path) -> None:
    prefix = conda(home / "miniconda3" / "envs" / "ml")
    (home / "anaconda3").symlink_to(home / "miniconda3")
    (home / ".conda").mkdir()
    (home / ".conda" / "environments.txt").write_text(f"{prefix}\n{prefix}\n")
    assert found("ml", home) == str(prefix)


def test_two_of_the_same_name_are_refused_and_listed(home: Path, tmp_path: Path) -> None:
    one, other = conda(home / "miniconda3" / "envs" / "ml"), conda(tmp_path / "proj" / "ml")
    (home / ".conda").mkdir()
    (home / ".conda" / "environments.txt").write_text(f"{one}\n{other}\n")

    why = refused("ml", home)
    assert why.code == "environment_ambiguous"
    assert why.names == [str(one), str(other)]
    assert found(str(other), home) == str(other)


def test_who_mistypes_is_told_what_there_is(home: Path) -> None:
    conda(home / "miniconda3")
    conda(home / "miniconda3" / "envs" / "ml")
    conda(home / ".conda" / "envs" / "nlp")
    (home / "miniconda3" / "envs" / "no-environment").mkdir()
    assert refused("mll", home).names == ["base", "ml", "nlp"]


def test_a_folder_by_what_is_in_it(home: Path, tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    venv = tmp_path / "my 环境"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "python").touch()
    (venv / "pyvenv.cfg").touch()

    assert find(f"{venv}/", "/", {}) == Environment("venv", bytes(venv), "my 环境".encode())
    assert refused(str(tmp_path / "plain"), home).code == "not_an_environment"
    assert refused(str(tmp_path / "gone"), home).code == "environment_missing"
    assert refused(str(venv / "pyvenv.cfg"), home).code == "not_an_environment"


@pytest.mark.parametrize(
    ("below", "name"), [("envs/ml", "ml"), ("proj", None), ("miniconda3", "base")]
)
def test_what_conda_calls_it(home: Path, below: str, name: str | None) -> None:
    prefix = conda(home / below)
    if name == "base":
        (prefix / "condabin").mkdir()
    assert find(str(prefix), "/", {}).name == (name or str(prefix)).encode()


def test_an_interpreter_that_is_gone_is_found_without_running_it(home: Path) -> None:
    prefix = conda(home / "miniconda3" / "envs" / "ml")
    assert found("ml", home) == str(prefix)  # one for R, say
    (prefix / "bin").mkdir()
    (prefix / "bin" / "python").symlink_to(home / "gone")
    assert refused("ml", home).code == "environment_broken"

    venv = home / "venv"
    venv.mkdir()
    (venv / "pyvenv.cfg").touch()
    assert refused(str(venv), home).code == "environment_broken"
