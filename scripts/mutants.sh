#!/usr/bin/env bash
# Would the tests notice? Applies each single-line mutant of tests/mutants/table.txt to a copy of this commit, builds the
# programs that look at it, and runs their tests until one fails. A mutant under which all pass survives.
# Usage: scripts/mutants.sh [--check | --only REGEX | --report FILE] ...; scripts/mutants.py says more.
set -euo pipefail
exec nice -n 10 python3 "$(dirname "$0")/mutants.py" "$@"
