# shellcheck shell=bash
# Sourced, not run: the set-up that ./cohort and scripts/test.sh share. Expects `set -euo pipefail`.
#
#   needPackages LIST          installs what is missing of scripts/LIST, where it may
#   build PRESET [TARGETS…]    configures where needed and builds build/PRESET; quiet while all is well
root=$(dirname -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")")

# Programs that find stdin closed would take their first file for it.
{ : <&0; } 2>/dev/null || exec </dev/null

# Who has ccache compiles nothing twice, in whichever clone.
if command -v ccache >/dev/null; then
  export CMAKE_CXX_COMPILER_LAUNCHER=${CMAKE_CXX_COMPILER_LAUNCHER-ccache} CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1
fi

say() { printf 'cohort: %s\n' "$*" >&2; }

showEndOf() {
  tail -n 40 -- "$1" >&2
  say "$2; the whole log: $1"
}

# The packages named in a list; what follows # is a comment.
packagesIn() { sed 's/#.*//; /^[[:space:]]*$/d; s/[[:space:]]//g' "$1"; }

# The lines of a list for these packages: each with what it is for.
purposesOf() {
  local list=$1 package
  shift
  for package in "$@"; do
    sed -n "s/^\\($package\\)[[:space:]]*#[[:space:]]*/\\1\t/p" "$list"
  done | while IFS=$'\t' read -r package purpose; do printf '  %-24s%s\n' "$package" "$purpose" >&2; done
}

missingPackages() {
  local installed
  # dpkg-query complains about, and leaves out, what it has never heard of.
  # shellcheck disable=SC2046
  installed=$(dpkg-query -W -f '${db:Status-Abbrev}${Package}\n' $(packagesIn "$1") 2>/dev/null || true)
  packagesIn "$1" | grep -vxF -f <(sed -n 's/^ii *//p' <<<"$installed") | tr '\n' ' ' || true
}

# Runs a command as root; fails where we may not.
asRoot() {
  if ((EUID == 0)); then
    "$@"
  elif sudo -n true 2>/dev/null || { [[ -t 0 && -t 2 ]] && command -v sudo >/dev/null && sudo -v; }; then
    sudo -n "$@"
  else
    return 1
  fi
}

# installPackages LIST PACKAGES…
installPackages() {
  local log=$root/build/packages.log list=$1
  shift
  local -a get=(env DEBIAN_FRONTEND=noninteractive apt-get -qy -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300)
  if ! asRoot true; then
    say "these Debian packages are missing, and installing them needs root or sudo:"
    purposesOf "$list" "$@"
    say "going on without; CMAKE_PREFIX_PATH is ${CMAKE_PREFIX_PATH:-not set}, loaded modules are ${LOADEDMODULES:-none}"
    return
  fi
  say "installing Debian packages: $*"
  if ! { asRoot "${get[@]}" update && asRoot "${get[@]}" install --no-install-recommends "$@"; } \
      >"$log" 2>&1 </dev/null; then
    showEndOf "$log" "apt-get could not install the packages; going on without"
  fi
}

# The check is repeated when the list or the machine's packages change, or after a failed build; what could not be
# installed is said once.
needPackages() {
  local list=$root/scripts/$1 stamp=$root/build/$1.checked database=/var/lib/dpkg/status missing
  [[ -w $root ]] || return 0
  mkdir -p "$root/build"
  [[ $stamp -nt $list && ! $database -nt $stamp ]] && return
  if command -v dpkg-query >/dev/null; then
    missing=$(missingPackages "$list")
    # shellcheck disable=SC2086
    [[ -z $missing ]] || installPackages "$list" $missing
  else
    say "this is no Debian: what scripts/$1 names must be here already; going on"
  fi
  touch "$stamp"
}

# Ninja's lines in, one line of progress out: rewritten on a terminal, written once elsewhere. Nothing when
# there is nothing to do.
progress() {
  local line shown=
  while IFS= read -r line; do
    [[ $line =~ ^\[([0-9]+)/([0-9]+)\] && ${BASH_REMATCH[1]} -gt 0 ]] || continue
    if [[ -t 2 ]]; then
      printf '\r\033[Kcohort: building %s of %s' "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}" >&2
    elif [[ -z $shown ]]; then
      say "building (${BASH_REMATCH[2]} steps)"
    fi
    shown=yes
  done
  if [[ -n $shown && -t 2 ]]; then printf '\r\033[K' >&2; fi
}

# Programs that the build cannot do without, all that are missing at once.
needTools() {
  local missing=()
  command -v cmake >/dev/null || missing+=("cmake (3.25 or newer)")
  command -v ninja >/dev/null || missing+=("ninja")
  command -v "${CXX:-c++}" >/dev/null || missing+=("${CXX:-c++} (a C++20 compiler such as g++ 12; CXX names another)")
  ((${#missing[@]} == 0)) && return
  say "these programs are missing; install them, or load the modules that have them, and start again:"
  printf '  %s\n' "${missing[@]}" >&2
  return 1
}

# Why configuring failed: the libraries that are missing, or the end of the log.
showWhyNot() {
  local begin='^ *These libraries are missing:' end='start again\.'
  if grep -q "$begin" "$1"; then
    say "configuring failed; the whole log: $1"
    sed -n "/$begin/,/$end/p" "$1" >&2
  else
    showEndOf "$1" "configuring failed"
  fi
}

build() {
  local preset=$1 directory=$root/build/$1 log=$root/build/$1.log
  shift
  if [[ ! -w $root ]]; then
    # Someone else's tree: what they built is what there is.
    [[ -f $directory/build.ninja ]] && return
    say "build/$preset does not exist and $root may not be written; clone it to a folder of your own"
    return 1
  fi
  mkdir -p "$directory"
  (
    # Two builds in one folder would spoil each other.
    if command -v flock >/dev/null; then flock 9; fi
    if [[ ! -f $directory/build.ninja || $root/CMakePresets.json -nt $directory/build.ninja ]]; then
      needTools || exit 1
      say "configuring build/$preset"
      if ! cmake -S "$root" --preset "$preset" >"$log" 2>&1; then
        rm -f "$root"/build/*.checked
        showWhyNot "$log"
        # What was found goes with it: the next try may have modules, or other folders.
        [[ -f $directory/build.ninja ]] || rm -f "$directory/CMakeCache.txt"
        exit 1
      fi
    fi
    if ! ninja -C "$directory" "$@" 2>&1 | tee "$log" | progress; then
      rm -f "$root"/build/*.checked
      showEndOf "$log" "building failed"
      exit 1
    fi
  ) 9>"$directory.lock"
}
