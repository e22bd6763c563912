#!/usr/bin/env bash
# scripts/fuzz.sh [SECONDS [TARGETS…]]: runs fuzz targets of tests/fuzz (all of them), each for so many seconds (15), two at
# once. Inputs that a target fails on stay in build/fuzz/findings.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=setup.sh
source "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/setup.sh"

programs=build/asan/tests/fuzz
findings=build/fuzz/findings

# Begins with the seeds alone, so that a run repeats another as far as the clock lets it.
fuzz() {
  local seconds=$1 target=$2 log=build/fuzz/$2.log corpus status=0
  corpus=$(mktemp -d)
  ASAN_OPTIONS=${ASAN_OPTIONS:-detect_stack_use_after_return=1:strict_string_checks=1} \
  UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1} TMPDIR=$corpus \
    "$programs/${target}_fuzz" -max_total_time="$seconds" -seed=1 -timeout=10 -rss_limit_mb=1024 -malloc_limit_mb=256 \
    -print_final_stats=1 -artifact_prefix="$findings/$target-" "$(mktemp -d -p "$corpus")" "build/asan/seeds/$target" \
    >"$log" 2>&1 </dev/null || status=$?
  rm -rf -- "$corpus"
  if ((status == 0)); then
    printf '%-12s %s inputs, all accepted or refused\n' "$target" "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")"
    return
  fi
  {
    tail -n 60 -- "$log"
    printf '%s: FAILED with status %d; the whole log: %s\n' "$target" "$status" "$log"
    sed -n "s|.*Test unit written to \(.*\)$|$target: to repeat it: $programs/${target}_fuzz \1|p" "$log"
  } >&2
  return "$status"
}

cd -- "$root"
if [[ ${1-} == --one ]]; then
  fuzz "$2" "$3"
  exit
fi
seconds=${1:-15}
targets=("${@:2}")
needPackages packages.txt
needPackages packages-check.txt
build asan fuzz
mkdir -p "$findings"
if ((${#targets[@]} == 0)); then
  for program in "$programs"/*_fuzz; do
    program=${program##*/}
    targets+=("${program%_fuzz}")
  done
fi
printf '%s\n' "${targets[@]}" | xargs -d '\n' -P 2 -n 1 scripts/fuzz.sh --one "$seconds"
