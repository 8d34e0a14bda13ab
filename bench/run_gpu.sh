#!/usr/bin/env bash
# Runs everything that was built on a machine with a GPU: tests, tutorials, sanitizers, benchmarks.
#
#   bench/run_gpu.sh WHERE [STEP...]
#
# WHERE is an archive of bench/pack.sh or a folder with the programs (a build folder, or all of them side by side).
# Steps: tests python tutorials launch first tune tuning rows scans gemm attention sanitizer; all of them by default. One that fails does not stop the others.
# Logs go to the folder $OUT (default: out/), one a kind of step; what the benchmarks wrote is in results.tar.gz beside
# them, packed anew after each step. A table comes last; the exit status is 1 if anything failed.
#
#   TIME_LIMIT      seconds for everything (520)
#   JOBS            tests, or programs under compute-sanitizer, that run at a time (a quarter of the processors)
#   TEGULA_DEVICE   gpu (default) or emulator, as the library takes it
#   SANITIZE_TOOLS  tools of compute-sanitizer ("memcheck racecheck"; synccheck and initcheck: docs/debugging.md)
#   SANITIZE        what runs under compute-sanitizer: program:filter, program:filter, ... (filter: of GoogleTest)
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [ $# -lt 1 ]; then
  sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}" >&2
  exit 2
fi
where=$1
shift
steps=${*:-tests python tutorials launch first tune tuning rows scans gemm attention sanitizer}
: "${OUT:=out}"
mkdir -p "$OUT"
OUT=$(cd "$OUT" && pwd)
: "${TIME_LIMIT:=520}"
: "${JOBS:=$(($(nproc) < 4 ? 1 : $(nproc) / 4))}"
export TEGULA_DEVICE=${TEGULA_DEVICE:-gpu}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

if [ -f "$where" ]; then
  tar -C "$scratch" -xJf "$where" 2>/dev/null ||
    python3 -c 'import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])' "$where" "$scratch" ||
    { echo "cannot unpack '$where'"; exit 2; }
  where=$scratch/tegula
fi
[ -d "$where" ] || { echo "there is no folder '$where'"; exit 2; }
where=$(cd "$where" && pwd)
export LD_LIBRARY_PATH=$where${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export TEGULA_CACHE_DIR=$scratch/cache

# The tests know the source tree and the tegula command by their places where they were built.
link_place() { # link_place PLACE TARGET
  [ -n "$1" ] && [ ! -e "$1" ] || return 0
  mkdir -p "$(dirname "$1")" && ln -sfn "$2" "$1" && linked=$1 || echo "cannot link '$1' to '$2'"
}
place() { # place FILE VARIABLE-OF-CMAKE
  if [ -f "$where/$1" ]; then
    cat "$where/$1"
  elif [ -f "$where/CMakeCache.txt" ]; then
    sed -n "s/^$2:INTERNAL=//p" "$where/CMakeCache.txt"
  fi
}
link_place "$(place SOURCE_DIR CMAKE_HOME_DIRECTORY)" "$PWD"
build_dir=$(place BUILD_DIR CMAKE_CACHEFILE_DIR)
link_place "$build_dir" "$where"
# The link of an unpacked archive goes when the archive does.
if [ "${linked:-}" = "$build_dir" ]; then trap 'rm -rf "$scratch" "$build_dir"' EXIT; fi

# find_program NAME FOLDER: its path, in the build's structure or side by side; nothing if it is not there.
find_program() {
  local file
  for file in "$where/$2/$1" "$where/$1"; do
    [ -f "$file" ] && [ -x "$file" ] && { echo "$file"; return; }
  done
}
# find_programs PATTERN FOLDER
find_programs() {
  local file
  for file in "$where"/$2/$1 "$where"/$1; do
    if [ -f "$file" ] && [ -x "$file" ]; then echo "$file"; fi
  done
}

rows=()
failures=0
row() { # row NAME RESULT SECONDS DETAIL
  local line
  printf -v line '%-30s %-8s %5s s  %s' "$@"
  rows+=("$line")
  case $2 in ok | skipped) ;; *) failures=$((failures + 1)) ;; esac
  echo "$line"
}
# seconds_left LIMIT: the smaller of LIMIT and what is left of the whole.
seconds_left() {
  local left=$((TIME_LIMIT - SECONDS))
  [ "$left" -lt "$1" ] && echo "$left" || echo "$1"
}
outcome() { # of an exit status
  case $1 in 0) echo ok ;; 124 | 137) echo TIMEOUT ;; *) echo "FAIL:$1" ;; esac
}
# step NAME LIMIT LOG COMMAND...: runs it with its output appended to LOG; sets `status`, and makes a row whose detail
# is the last line that it printed.
step() {
  local name=$1 limit log=$OUT/$3 start=$SECONDS text=$scratch/step
  limit=$(seconds_left "$2")
  shift 3
  if [ "$limit" -lt 3 ]; then row "$name" "NO TIME" 0 ""; status=1; return; fi
  timeout -k 5 "$limit" "$@" >"$text" 2>&1 </dev/null
  status=$?
  { printf '\n######## %s: %s\n' "$name" "$*"; cat "$text"; printf '######## exit status %d\n' $status; } >>"$log"
  row "$name" "$(outcome $status)" $((SECONDS - start)) "$(grep -v '^[[:space:]]*$' "$text" | tail -n 1 | cut -c1-100)"
}

# ---- tests: several programs at a time, each with a log of its own until all are done. The longest ones begin first;
# the one whose tests tune hundreds of kernels runs as several processes.
run_tests() {
  local limit tests test name part
  local longest='/(dot_types|matmul|gemm|ops_reduce|attention|ptx|lambda_kernel)_test$' divided='/kernels_test$'
  limit=$(seconds_left 240)
  mapfile -t tests < <(find_programs '*_test' tests | awk -v longest="$longest" -v divided="$divided" \
    '$0 ~ divided { for (part = 0; part < 6; ++part) print $0, part, 6; next }
     $0 ~ longest { next_ones = next_ones $0 " 0 1\n"; next } { rest = rest $0 " 0 1\n" }
     END { printf "%s%s", next_ones, rest }')
  [ ${#tests[@]} -gt 0 ] || { row tests MISSING 0 "no *_test in $where"; return; }
  mkdir -p "$scratch/tests"
  printf '%s\n' "${tests[@]}" | UNTIL=$(($(date +%s) + limit)) LOGS=$scratch/tests xargs -P "$JOBS" -L 1 bash -c '
    name=$(basename $1) start=$SECONDS
    log=$LOGS/$name.$2
    export GTEST_SHARD_INDEX=$2 GTEST_TOTAL_SHARDS=$3 TEGULA_CACHE_DIR=$LOGS/$name.cache
    left=$((UNTIL - $(date +%s)))
    [ $left -gt 0 ] || { echo "124 0" >$log.status; exit 0; }
    timeout -k 5 $left $1 --gtest_output=json:$log.json >$log.log 2>&1 </dev/null
    echo "$? $((SECONDS - start))" >$log.status' run
  for test in "${tests[@]}"; do
    read -r test part _ <<<"$test"
    name=$(basename "$test").$part
    local log=$scratch/tests/$name.log status=1 seconds=0 passed failed skipped
    name=${name%.0}
    [ -f "${log%.log}.status" ] && read -r status seconds <"${log%.log}.status"
    [ -f "$log" ] || : >"$log"
    { printf '\n######## %s: exit status %d\n' "$name" "$status"; grep -vE '^\[( RUN     |       OK |---------)' "$log"; } >>"$OUT/tests.log"
    passed=$(grep -cE '^\[       OK \]' "$log")
    skipped=$(grep -cE '^\[  SKIPPED \] .*\([0-9]+ ms\)' "$log")
    failed=$(grep -cE '^\[  FAILED  \] .*\([0-9]+ ms\)' "$log")
    row "$name" "$(outcome "$status")" "$seconds" "passed $passed failed $failed skipped $skipped"
    grep -E '^\[  FAILED  \] .*\([0-9]+ ms\)' "$log" | head -n 8
  done
}

# with_python NAME LIMIT LOG SCRIPT...: a Python program over the Python package, with the torch and Triton of this machine.
with_python() {
  local library
  for library in "$where"/libtegula.so "$where"/libtegula.so.0; do [ ! -f "$library" ] || break; done
  step "$1" "$2" "$3" env PYTHONUNBUFFERED=1 TEGULA_LIBRARY="$library" TRITON_CACHE_DIR="$scratch/triton" \
    python3 "${@:4}"
}

run_tutorials() {
  local program
  for program in $(find_programs '[0-9][0-9]_*' tutorials); do
    step "$(basename "$program")" 60 tutorials.log "$program"
  done
}

# ---- compute-sanitizer: several programs at a time; what it says counts even where the time ran out.
sanitize() { # sanitize TOOL NAME LIMIT COMMAND...: its log, exit status and seconds
  local log=$scratch/sanitizer/$1.$2 start=$SECONDS status
  local options=()
  # Links that are tried for more programs than the registers allow are refused by the driver, which is no error.
  [ "$1" != memcheck ] || options=(--report-api-errors no)
  TEGULA_TUNING=pinned timeout -k 5 "$3" "$sanitizer" --tool "$1" "${options[@]}" --error-exitcode 77 "${@:4}" \
    >"$log" 2>&1 </dev/null
  status=$?
  echo "$status $((SECONDS - start))" >"$log.status"
}

run_sanitizer() {
  local sanitizer entry name filter program tool limit status seconds result log
  sanitizer=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
  [ -x "$sanitizer" ] || { row sanitizer MISSING 0 "no compute-sanitizer"; return; }
  local work=() tools
  read -ra tools <<<"${SANITIZE_TOOLS:-memcheck racecheck}"
  if [ -n "${SANITIZE:-}" ]; then
    IFS=', ' read -ra work <<<"$SANITIZE"
  else
    work=(01_vector_add: 02_fused_softmax:)
    for program in $(find_programs '*_test' tests); do
      name=$(basename "$program")
      case $name in
        *emulat* | *golden* | *parser* | *driver* | *cache* | *checker* | *fault* | *roll_*) ;;
        *kernels* | *ops_* | *dot* | *matmul* | *softmax* | *reduc* | *scan* | *atomic*) work+=("$name:") ;;
        *wgmma* | *bulk* | *async* | *cluster* | *attention* | *gemm* | *operands* | *tiles* | *float8*) work+=("$name:") ;;
      esac
    done
  fi
  limit=$(($(seconds_left 400) * JOBS / (${#tools[@]} * ${#work[@]})))
  [ $limit -ge 5 ] || { row sanitizer "NO TIME" 0 ""; return; }
  mkdir -p "$scratch/sanitizer"
  for tool in "${tools[@]}"; do
    for entry in "${work[@]}"; do
      name=${entry%%:*} filter=${entry#*:}
      program=$(find_program "$name" tests)
      [ -n "$program" ] || program=$(find_program "$name" tutorials)
      [ -n "$program" ] || { row "$tool $name" MISSING 0 ""; continue; }
      local command=("$program")
      case $name in
        *_test) command+=(--gtest_brief=1 "--gtest_filter=${filter:-*}") ;;
        02_fused_softmax) command+=(--rows 64 --cols 781) ;;
      esac
      [ "$(jobs -rp | wc -l)" -lt "$JOBS" ] || wait -n
      sanitize $tool "$name" $limit "${command[@]}" &
    done
  done
  wait
  for log in "$scratch"/sanitizer/*.status; do
    read -r status seconds <"$log"
    log=${log%.status} name=$(basename "${log%.status}") result=$(outcome "$status")
    { printf '\n######## %s\n' "$name"; head -c 1000000 "$log"; printf '######## exit status %d\n' "$status"; } >>"$OUT/sanitizer.log"
    # Cut short, it has still checked what ran until then.
    if [ "$result" = TIMEOUT ] && ! grep -qE '^=+ (Invalid|Error|Warning|Race|Program hit)' "$log"; then result=ok; fi
    if grep -q 'before first instrumented API call' "$log"; then result=skipped; fi
    row "${name/./ }" "$result" "$seconds" \
      "$(grep -E 'ERROR SUMMARY|RACECHECK SUMMARY' "$log" | tail -n 1 | sed 's/=//g')$([ "$status" -eq 124 ] && echo ' no error until cut short')"
  done
}

# compared NAME LIMIT ARGUMENTS...: a benchmark of bench/ that writes files.
compared() {
  mkdir -p "$scratch/results"
  with_python "$1.py" "$2" bench.log "bench/$1.py" --out "$scratch/results" "${@:3}"
  tar -C "$scratch" -czf "$OUT/results.tar.gz" results || row "results of $1" LOST 0 "cannot write $OUT/results.tar.gz"
}

run_bench() { # run_bench NAME LIMIT ARGUMENTS...
  local program
  program=$(find_program "$1" bench)
  if [ -z "$program" ]; then row "$1" MISSING 0 ""; return; fi
  step "$1" "$2" bench.log "$program" "${@:3}"
}

{
  date -u
  nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem,power.limit --format=csv 2>&1
  git rev-parse HEAD 2>/dev/null
} >"$OUT/summary.txt"
for name in $steps; do
  case $name in
    tests) run_tests ;;
    python)
      for file in test_tegula.py test_errors.py test_torch.py; do
        with_python "$file" 180 python.log "tests/bindings/python/$file"
      done
      ;;
    tutorials) run_tutorials ;;
    sanitizer) run_sanitizer ;;
    launch) run_bench launch_overhead 40 ;;
    tune) step tuning_time 60 bench.log bench/tuning_time.sh "$(find_program tegula .)" ;;
    tuning) compared tuning 200 --budget 160 --tegula "$(find_program tegula .)" ;;
    first) run_bench first_call 60 ;;
    rows) compared rows 420 ;;
    scans) compared scans 200 ;;
    attention) compared attention 400 ;;
    gemm) compared gemm 200 --budget 160 ;;
    *) row "$name" UNKNOWN 0 "steps: tests python tutorials launch first tune tuning rows scans gemm attention sanitizer" ;;
  esac
done

[ -f "$OUT/bench.log" ] && cat "$OUT/bench.log"
{
  printf '\n'
  printf '%s\n' "${rows[@]}"
  printf '\n%d rows, %d not ok, %d s together\n' ${#rows[@]} $failures $SECONDS
} | tee -a "$OUT/summary.txt"
[ $failures -eq 0 ]
