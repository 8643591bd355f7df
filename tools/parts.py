"""Runs the parts of `make test`, `make check` and `make soak` one after another, and times each.

The first failing part does not stop the others: one run tells everything that is wrong.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
PYTEST = [sys.executable, "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider"]
PARALLEL = ["-n", "2"]
BY_FILE = [*PARALLEL, "--dist", "loadfile"]
"""Files whose tests share a server, or must not meet others of their kind."""

TAKEOVER = "tests/crash/test_takeover.py"

Parts = dict[str, list[str | Path]]

CHECK: Parts = {
    "format": [BIN / "ruff", "format", "--check", "-q", "."],
    "lint": [BIN / "ruff", "check", "-q", "."],
    "types": [BIN / "mypy", "--no-error-summary", "src", "tests", "bench", "tools"],
    "imports": [BIN / "lint-imports", "--no-cache"],
}
TEST: Parts = {
    "unit": [*PYTEST, *PARALLEL, "tests/unit", "tests/property", "tests/test_architecture.py"],
    "simulation": [*PYTEST, *PARALLEL, "tests/simulation"],
    "contract": [*PYTEST, *BY_FILE, "tests/contract"],
    "integration": [*PYTEST, *BY_FILE, "tests/integration"],
    "crash": [*PYTEST, *BY_FILE, "tests/crash"],
    "e2e": [*PYTEST, *BY_FILE, "tests/e2e"],
}
SOAK: Parts = {
    "crash": [*PYTEST, "-m", "soak", "--timeout=3000", "tests/crash", f"--ignore={TAKEOVER}"],
    "takeover": [*PYTEST, "-m", "soak", "--timeout=900", TAKEOVER],
    "fuzz": [*PYTEST, "--timeout=1800", "tests/integration/api/test_fuzz.py"],
    "fuzz-roles": [*PYTEST, "--timeout=1800", "tests/integration/api/test_fuzz_roles.py"],
    "crash-postgresql": [*PYTEST, "--timeout=3000", "tests/crash"],
    "fuzz-postgresql": [*PYTEST, "--timeout=1800", "tests/integration/api/test_fuzz.py"],
    "property": [*PYTEST, *PARALLEL, "--timeout=1800", "tests/property"],
    "month": [*PYTEST, "-m", "soak", "--timeout=3000", "tests/property/test_month.py"],
    "simulation": [*PYTEST, *PARALLEL, "--timeout=1800", "tests/simulation/test_seeds.py"],
    "mutants": [sys.executable, "-m", "tests.simulation.mutants"],
}
SOAK_ENVIRON = {
    "STOKER_FUZZ_EXAMPLES": "2000",
    "STOKER_EXAMPLES": "5000",
    "STOKER_SEEDS": "5000",
    "STOKER_SOAK": "1",
}
OF_ONE_PART = {
    "fuzz-roles": {"STOKER_FUZZ_EXAMPLES": "500"},
    "crash-postgresql": {"STOKER_TEST_DATABASE": "postgresql"},
    "fuzz-postgresql": {"STOKER_TEST_DATABASE": "postgresql", "STOKER_FUZZ_EXAMPLES": "300"},
}


def main(kind: str, wanted: list[str]) -> int:
    kinds = {"check": CHECK, "test": {**CHECK, **TEST}, "soak": SOAK}
    parts = kinds[kind]
    unknown = [name for name in wanted if name not in parts]
    if unknown:
        print(f"no part {unknown[0]!r}; there are: {', '.join(parts)}", file=sys.stderr)
        return 2
    environ = {**os.environ, **(SOAK_ENVIRON if kind == "soak" else {})}
    results = []
    for name in wanted or parts:
        print(f"── {name}", flush=True)
        begun = time.monotonic()
        given = {**environ, **OF_ONE_PART.get(name, {})}
        code = subprocess.run(parts[name], cwd=ROOT, env=given, check=False).returncode
        results.append((name, time.monotonic() - begun, code))
    print("── took")
    for name, seconds, code in results:
        print(f"{name:14}{seconds:7.1f} s  {'ok' if code == 0 else 'FAILED'}")
    return 1 if any(code for _, _, code in results) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
