#!/bin/sh
# What the recipes beside this file do inside a container, as root on Debian 12; once for Apptainer and Docker.
#
#   install.sh packages SOURCE [MORE...]    installs scripts/packages.txt and more packages
#   install.sh build SOURCE               builds and installs into /opt/cohort
#   install.sh runtime [MORE...]            installs what /opt/cohort needs to run and more packages, and nothing to build with
#
# /opt/cohort/packages.txt goes from build to runtime: the packages of the libraries that the program is linked with.
set -eu
prefix=/opt/cohort
export DEBIAN_FRONTEND=noninteractive

addPackages() {
  apt-get update -q
  apt-get install -qy --no-install-recommends "$@"
  rm -rf /var/lib/apt/lists/*
}

packagesIn() { sed 's/#.*//; /^[[:space:]]*$/d; s/[[:space:]]//g' "$1"; }

# Libraries may be known under /lib or /usr/lib.
packagesOfLibraries() {
  ldd "$1" | sed -n 's/.*=> \(\/[^ ]*\) .*/\1/p' | while read -r library; do
    library=$(readlink -f "$library")
    dpkg -S "$library" 2>/dev/null || dpkg -S "${library#/usr}"
  done | sed 's/:.*//' | sort -u
}

step=${1-}
[ $# -eq 0 ] || shift
case $step in
  packages)
    source=$1
    shift
    # shellcheck disable=SC2046
    addPackages $(packagesIn "$source/scripts/packages.txt") "$@"
    ;;
  build)
    cmake -S "$1" -B "$1/build/release" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCOHORT_TESTS=OFF
    cmake --build "$1/build/release" --target cohort_program
    install -D "$1/build/release/cohort" "$prefix/bin/cohort"
    packagesOfLibraries "$prefix/bin/cohort" >"$prefix/packages.txt"
    ;;
  runtime)
    # mpirun and how it reaches other hosts; certificates for cohort data fetch; what it trains on by default.
    # shellcheck disable=SC2046
    addPackages $(cat "$prefix/packages.txt") openmpi-bin openssh-client ca-certificates dataset-fashion-mnist "$@"
    ln -sf "$prefix/bin/cohort" /usr/local/bin/cohort
    ;;
  *)
    echo "install.sh packages SOURCE [MORE...] | build SOURCE | runtime [MORE...]" >&2
    exit 2
    ;;
esac
