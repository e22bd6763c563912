#!/usr/bin/env bash
# ./cohort test [--all] [ctest options]: see ../cohort. The options go to every run of ctest.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=setup.sh
source "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/setup.sh"

all=
ctestOptions=()
for argument in "$@"; do
  if [[ $argument == --all ]]; then all=yes; else ctestOptions+=("$argument"); fi
done
# Tests of processes mostly wait: half as many again as there are cores keep these busy.
cores=$(nproc)
export CTEST_PARALLEL_LEVEL=${CTEST_PARALLEL_LEVEL:-$((cores + (cores + 1) / 2))}

cppFiles() { find . -path ./build -prune -o \( -name '*.h' -o -name '*.cpp' \) -print | sort; }

# The stages. Each runs in the repository's root, prints what is wrong, and fails where something is.

# testsOf PRESET [TARGETS…]: tests of targets that are not built are left out.
testsOf() { build "$@" && ctest --preset "$1" "${ctestOptions[@]}"; }

# The same, without a line for each test that passes.
failuresOf() { testsOf "$@" | grep -vE '^ +Start +[0-9]+: |^ *[0-9]+/[0-9]+ Test +#[0-9]+: .* Passed '; }

formatCheck() { cppFiles | xargs -r -d '\n' clang-format --dry-run -Werror; }

borderCheck() { scripts/check_borders.py --self-test && scripts/check_borders.py; }

tidyCheck() { build release && scripts/tidy.py --self-test && scripts/tidy.py build/release; }

# What later stages need, done with what the tests leave of the cores: they wait half of their time. What fails here is told by its
# stage, which does it again; clang-tidy remembers what is clean.
workAhead() {
  renice -n 19 "$BASHPID"
  build asan unit_tests fuzz
  build tsan threaded_tests
  build release && scripts/tidy.py build/release
}

outputs=$(mktemp -d)
trap 'rm -rf "$outputs"' EXIT
passed=0
failed=()
stage() {
  local name=$1 start=$SECONDS
  shift
  printf '\n== %s\n' "$name"
  if "$@" 2>&1 | tee "$outputs/$name"; then
    printf '== %s: passed in %d s\n' "$name" $((SECONDS - start))
    passed=$((passed + 1))
  else
    printf '== %s: FAILED after %d s\n' "$name" $((SECONDS - start))
    failed+=("$name")
  fi
}

cd -- "$root"
needPackages packages.txt
needPackages packages-test.txt
if [[ -z $all ]]; then
  ctestOptions+=(--label-exclude 'browser|long')  # a browser is among the packages of --all
  testsOf release
  exit
fi

needPackages packages-check.txt
workAhead >/dev/null 2>&1 </dev/null &
stage "tests" failuresOf release
stage "format" formatCheck
stage "module borders" borderCheck
stage "clang-tidy" tidyCheck
stage "address and undefined-behaviour sanitizers" failuresOf asan unit_tests
stage "thread sanitizer" failuresOf tsan threaded_tests
stage "fuzzing" scripts/fuzz.sh

for name in "${failed[@]}"; do
  printf '\n== %s: FAILED; its last lines were\n' "$name"
  tail -n 60 "$outputs/$name"
done
echo
echo "$passed passed, ${#failed[@]} failed"
((${#failed[@]} == 0))
