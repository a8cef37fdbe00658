#!/usr/bin/env bash
# Prints the path of Kustomize 5: Debian's, of the release that the lab's images are made from, fetched once through the
# lab's engine (docker.sh). It runs on its own.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
program=${CODEHUB_LAB_DIR:-/var/cache/codehub-lab}/kustomize-trixie
if [ ! -x "$program" ]; then
  eval "$("$here/docker.sh" up | sed 's/^/export /')"
  box=$(docker create --network host debian:trixie-slim sh -c 'apt-get update -qq && cd /tmp &&
    apt-get download -qq kustomize && dpkg -x kustomize_*.deb /tmp/kustomize')
  trap 'docker rm "$box" >/dev/null' EXIT
  docker start --attach "$box" >&2
  docker cp "$box:/tmp/kustomize/usr/bin/kustomize" "$program.part" >/dev/null
  mv "$program.part" "$program"
fi
echo "$program"
