"""The PAM rules of Stoker: those of the distribution, written once."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.cli.pamfile import write_pam_file


@pytest.mark.parametrize(
    ("there", "line"),
    [
        ("common-auth", "@include common-account"),
        ("password-auth", "account  include password-auth"),
    ],
)
def test_the_rules_of_the_distribution_count(tmp_path: Path, there: str, line: str) -> None:
    (tmp_path / there).touch()
    assert write_pam_file(tmp_path) == tmp_path / "stoker"
    assert line in (tmp_path / "stoker").read_text()
    (tmp_path / "stoker").write_text("the admin's own\n")
    assert write_pam_file(tmp_path) is None
    assert (tmp_path / "stoker").read_text() == "the admin's own\n"


def test_where_nobody_knows_nothing_is_written(tmp_path: Path) -> None:
    assert write_pam_file(tmp_path) is None
    assert list(tmp_path.iterdir()) == []
