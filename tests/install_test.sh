#!/usr/bin/env bash
# install_test.sh SOURCE_DIR BUILD_DIR: what is installed is complete. Installs into a temporary prefix, runs the
# program from there, and builds the examples, and each public header by itself, against it alone.
set -euo pipefail
sourceDir=$1
buildDir=$2

scratch=$(mktemp -d)
trap 'rm -rf -- "$scratch"' EXIT
prefix=$scratch/a\ prefix
unset DESTDIR

cmake --install "$buildDir" --prefix "$prefix" >"$scratch/install.log"
"$prefix/bin/cohort" --version

buildAgainstPrefix() {
  cmake -S "$1" -B "$2" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$prefix" >"$2.log" ||
    { cat "$2.log"; return 1; }
  cmake --build "$2" --parallel 2
}

buildAgainstPrefix "$sourceDir/examples" "$scratch/examples"

# A format of one's own trains: 200 images of 12x12 in two classes, bright above or below.
mkdir "$scratch/csv"
for i in {1..200}; do
  printf '%d' $((i % 2))
  for p in {0..143}; do printf ',%d' $(((p / 72 == i % 2 ? 200 : 20) + (i * 7 + p * 3) % 50)); done
  printf '\n'
done >"$scratch/csv/train.csv"
"$scratch/examples/custom_dataset" train --network mnist-cnn --dataset csv --data-dir "$scratch/csv" --image-size 12 \
  --test-split 50 --validation-split 10% --batch-size 20 --train-steps 30 --job-dir "$scratch/csv-run" |
  tee "$scratch/csv.log"
grep -q 'test accuracy 1.0000' "$scratch/csv.log" || { echo "the custom dataset was not learnt"; exit 1; }

# A model of one's own trains under every rule, and on any number of workers with the same bits.
trainForeign() {
  "$scratch/examples/foreign_model" train --network softmax --dataset synthetic --samples 400 --test-samples 100 \
    --train-steps 40 --job-dir "$scratch/foreign-$1" "${@:2}" >"$scratch/foreign.log" ||
    { cat "$scratch/foreign.log"; return 1; }
  sed -n 's/^weights //p' "$scratch/foreign.log"
}
alone=$(trainForeign alone)
[[ -n $alone && $(trainForeign three --workers 3) == "$alone" ]] || { echo "the foreign model differs by workers"; exit 1; }
[[ $(trainForeign threads --threads 2) == "$alone" ]] || { echo "the foreign model differs by lanes"; exit 1; }
[[ $(trainForeign diloco --workers 2 --sync diloco --inner-steps 5) != "$alone" ]]
grep -Eq 'test accuracy (0\.[89]|1\.0)' "$scratch/foreign.log" || { cat "$scratch/foreign.log"; echo "the foreign model learnt nothing"; exit 1; }

# A rule of one's own trains through a center, and exchanges seldom.
"$scratch/examples/custom_rule" train --network mnist-fc --dataset synthetic --samples 400 --test-samples 100 --batch-size 20 \
  --train-steps 300 --workers 2 --sync falling-loss --job-dir "$scratch/rule" >"$scratch/rule.log" ||
  { cat "$scratch/rule.log"; exit 1; }
grep -Eq 'test accuracy (0\.[89]|1\.0)' "$scratch/rule.log" || { cat "$scratch/rule.log"; echo "the rule learnt nothing"; exit 1; }
python3 - "$scratch/rule/summary.json" <<'END'
import json, sys
center = json.load(open(sys.argv[1]))["center"]
exchanges = center["servers"][0]["updates"]
assert center["rule"] == "falling-loss" and 2 <= exchanges <= 150, center
END

# The program that knows the rule replays it, and runs it in virtual time; another one says so.
weights=$(sed -n 's/^weights //p' "$scratch/rule.log")
"$scratch/examples/custom_rule" replay "$scratch/rule" | tee "$scratch/replay.log"
[[ -n $weights && $(sed -n 's/^weights //p' "$scratch/replay.log") == "$weights" ]] || { echo "the rule's replay differs"; exit 1; }
if "$prefix/bin/cohort" replay "$scratch/rule" 2>"$scratch/replay.log"; then echo "a rule was replayed that is not there"; exit 1; fi
grep -q "does not know the rule 'falling-loss' of this run; replay it with the program that has trained it" "$scratch/replay.log" ||
  { cat "$scratch/replay.log"; exit 1; }
"$scratch/examples/custom_rule" train --network mnist-fc --dataset synthetic --samples 400 --test-samples 100 --batch-size 20 \
  --train-steps 300 --virtual 2 --sync falling-loss --job-dir "$scratch/virtual-rule" >"$scratch/rule.log" ||
  { cat "$scratch/rule.log"; exit 1; }
grep -Eq 'test accuracy (0\.[89]|1\.0)' "$scratch/rule.log" || { cat "$scratch/rule.log"; echo "the virtual rule learnt nothing"; exit 1; }

# A header must not need what was not installed, nor another header before it.
mkdir "$scratch/headers"
(cd "$prefix/include/cohort" && find . -name '*.h' | sort | sed 's|^\./||') >"$scratch/headers.txt"
[[ -s $scratch/headers.txt ]] || { echo "no header was installed"; exit 1; }
if grep '_test' "$scratch/headers.txt"; then echo "tests were installed"; exit 1; fi
while IFS= read -r header; do
  printf '#include <%s>\n' "$header" >"$scratch/headers/${header//\//_}.cpp"
done <"$scratch/headers.txt"
cat >"$scratch/headers/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.25)
project(headers LANGUAGES CXX)
find_package(cohort REQUIRED)
file(GLOB sources *.cpp)
add_library(headers OBJECT ${sources})
target_link_libraries(headers PRIVATE cohort::cohort)
END
buildAgainstPrefix "$scratch/headers" "$scratch/headers-build"
echo "$(wc -l <"$scratch/headers.txt") headers compile alone"
