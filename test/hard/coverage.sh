#!/usr/bin/env bash
#
# coverage.sh -- which lines and branches of src all suites together reached
#
# After they were run with a build for gcov.  A process counts when it exits,
# and the worker, by dump.h, when it waits, so that what is done only by one that
# is killed may not be seen.  Prints a table, the lines that were not reached,
# and a line in TAP: enough of them must have been.
#
# Runs in the copy of the tree, as the user of the server.

set -euo pipefail

gcov --branch-probabilities --json-format --stdout src/*.gcda 2>/dev/null |
    perl test/hard/coverage.pl 95
