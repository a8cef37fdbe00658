#!/usr/bin/env bash
# A bare Debian machine, for proving what the README promises: python3, pip, make, git and certificates, nothing else.
# Root only. The base is made once (half a minute) and kept; each run gets a throw-away copy (overlay), mount and process
# namespaces of its own, and this machine's network and package settings. Whatever it starts ends with it, and what a
# killed one has left in the cache is removed by the next.
#
#   machine.sh run [options] DIR COMMAND…
#       copies DIR (a clone) to ~dev/codehub, or /srv/codehub for root, and runs COMMAND in it
#       --suite NAME       bookworm (the default) or trixie
#       --user             as an ordinary user without rights, instead of root
#       --sudo             … who may become root by sudo without a password
#       --python WHERE     system; hidden (below root's home, which only root may enter, as pyenv installs it for root);
#                          venv (python3 is that of a virtual environment)
#       --with PACKAGES    Debian packages that are there before
#       --no-packages      the system's package manager finds nothing to install
#       --cache FOLDER     a folder of this machine for uv's downloads: a warm cache
#   machine.sh clean       forgets the bases
#
# Ports are this machine's: COMMAND chooses free ones.
set -euo pipefail
lab=${CODEHUB_LAB_DIR:-/var/cache/codehub-lab}
export BARE_CACHE=$lab/bare
packages="python3 python3-pip python3-venv make git ca-certificates procps"

fail() { echo "machine.sh: $*" >&2; exit 2; }
[ "$(id -u)" = 0 ] || fail "only root can do this"

base() { # prints the folder of a base of suite $1 that has the packages "$2" besides
  local all="$packages $2" folder lock
  folder=$BARE_CACHE/$1-$(printf %s "$all" | sha256sum | cut -c1-12)
  exec 9>"$folder.lock"
  flock 9
  if [ ! -e "$folder/.ready" ]; then
    if ! command -v mmdebstrap >/dev/null; then
      echo "machine.sh: installing mmdebstrap" >&2
      { apt-get update -qq && apt-get install -y -qq --no-install-recommends mmdebstrap >/dev/null; } >&2 || fail "no mmdebstrap"
    fi
    echo "machine.sh: making a bare $1 ($all)" >&2
    rm -rf "$folder" && mkdir -p "$folder"
    # shellcheck disable=SC2086
    mmdebstrap --quiet --variant=minbase --include="$(echo $all | tr ' ' ',')" "$1" "$folder" >&2 || fail "no base"
    chroot "$folder" useradd -m -s /bin/bash dev
    touch "$folder/.ready"
  fi
  exec 9>&-
  echo "$folder"
}

is_mounted() { grep -Fqs "$1/" /proc/[0-9]*/mountinfo; } # by any process, in whichever namespace

sweep() { # removes the folders that no script and no machine holds
  local folder
  for folder in "$BARE_CACHE"/run.*; do
    if [ -d "$folder" ] && ! is_mounted "$folder"; then
      flock -n "$folder/held" rm -rf "$folder" || true
    fi
  done
}

end() { # of the machine: nothing of it runs when its folder goes
  # --kill-child takes the whole tree with it.
  [ -z "$machine" ] || { kill -KILL "$machine" 2>/dev/null; wait "$machine"; } || true
  local _
  for _ in $(seq 100); do
    is_mounted "$BARE_WORK" || break
    sleep 0.1
  done
  rm -rf "$BARE_WORK"
}

# Runs in the new namespaces, as root of the machine below $BARE_WORK.
enter() {
  mount --make-rprivate /
  mkdir -p "$BARE_WORK"/{upper,work,root}
  local r=$BARE_WORK/root home=/srv
  [ "$BARE_USER" = root ] || home=/home/dev
  mount -t overlay overlay -o "lowerdir=$BARE_LOWER,upperdir=$BARE_WORK/upper,workdir=$BARE_WORK/work" "$r"
  mount -t proc proc "$r/proc"
  mount --rbind /sys "$r/sys"
  mount --rbind /dev "$r/dev"
  mount -t tmpfs tmpfs "$r/run"
  mount -t tmpfs -o mode=1777 tmpfs "$r/tmp"
  if [ -n "$BARE_UV_CACHE" ]; then
    BARE_UV_CACHE=$BARE_UV_CACHE/$BARE_USER  # what root writes there nobody else may use
    mkdir -p "$BARE_UV_CACHE" "$r/var/cache/uv"
    chmod 1777 "$BARE_UV_CACHE"
    mount --bind "$BARE_UV_CACHE" "$r/var/cache/uv"
  fi
  local f
  for f in /etc/resolv.conf /etc/hosts /etc/pip.conf; do [ ! -e $f ] || cp -L $f "$r$f"; done
  # This machine's packages, of the suite that it is itself; another suite has its own list from mmdebstrap.
  cp -r /etc/apt/apt.conf.d/. "$r/etc/apt/apt.conf.d/"
  if [ -n "$BARE_NO_PACKAGES" ]; then
    rm -rf "$r"/etc/apt/sources.list* "$r"/var/lib/apt/lists/*
  elif [ "$BARE_SUITE" = bookworm ]; then
    rm -rf "$r"/etc/apt/sources.list*
    cp -r /etc/apt/sources.list* "$r/etc/apt/"
  fi
  cp -rL /etc/ssl/certs/. "$r/etc/ssl/certs/" 2>/dev/null || true
  for f in "$(npm config get userconfig 2>/dev/null || true)" /usr/etc/npmrc; do
    [ ! -f "$f" ] || cat "$f" >>"$r/etc/npmrc-bare"
  done
  mkdir -p "$r$home"
  cp -a "$BARE_DIR" "$r$home/codehub"
  chroot "$r" chown -R "$BARE_USER:" "$home/codehub"
  [ -z "$BARE_SUDO" ] || echo "dev ALL=(ALL) NOPASSWD: ALL" >"$r/etc/sudoers.d/dev"
  local path=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
  case $BARE_PYTHON in
    hidden)
      local name
      name=$(basename "$(readlink -f "$r/usr/bin/python3")")
      mkdir -p "$r/root/.python/bin" "$r/root/.python/lib"
      cp -L "$r/usr/bin/$name" "$r/root/.python/bin/$name"
      ln -s "$name" "$r/root/.python/bin/python3"
      cp -a "$r/usr/lib/$name" "$r/root/.python/lib/"
      cp -a "$r/usr/lib/python3/dist-packages/." "$r/root/.python/lib/$name/"
      rm -f "$r"/usr/bin/python3* "$r/usr/lib/$name/EXTERNALLY-MANAGED" "$r/root/.python/lib/$name/EXTERNALLY-MANAGED"
      chmod 700 "$r/root"
      path=/root/.python/bin:$path
      ;;
    venv)
      chroot "$r" python3 -m venv /opt/venv
      path=/opt/venv/bin:$path
      ;;
  esac
  local keep=() line
  while IFS= read -r line; do keep+=("$line"); done < <(
    env | grep -E '^(PIP_|UV_|NPM_|npm_|NODE_EXTRA|SSL_|REQUESTS_CA|CURL_CA|[A-Za-z_]*_proxy=|CODEHUB_|PROCESS_)' || true)
  [ -z "$BARE_UV_CACHE" ] || keep+=(UV_CACHE_DIR=/var/cache/uv)
  local user_home=/root
  [ "$BARE_USER" = root ] || user_home=/home/dev
  # Not chroot: in one no user namespaces can be made, which sandboxes need.
  mkdir -p "$r/.old"
  cd "$r"
  pivot_root . .old
  umount -l /.old
  rmdir /.old
  exec setpriv --reuid="$BARE_USER" --regid="$BARE_USER" --init-groups /usr/bin/env -i HOME="$user_home" \
    USER="$BARE_USER" LANG=C.UTF-8 TERM=dumb PATH="$path" NPM_CONFIG_USERCONFIG=/etc/npmrc-bare "${keep[@]}" \
    bash -c "cd $home/codehub && $BARE_COMMAND"
}

run() {
  export BARE_SUITE=bookworm BARE_USER=root BARE_SUDO="" BARE_PYTHON=system BARE_NO_PACKAGES="" BARE_UV_CACHE=""
  local with=""
  while [ $# -gt 0 ]; do
    case $1 in
      --suite) BARE_SUITE=$2; shift ;;
      --user) BARE_USER=dev ;;
      --sudo) BARE_USER=dev BARE_SUDO=1 with="$with sudo" ;;
      --python) BARE_PYTHON=$2; shift ;;
      --with) with="$with $2"; shift ;;
      --no-packages) BARE_NO_PACKAGES=1 ;;
      --cache) BARE_UV_CACHE=$2; shift ;;
      -*) fail "what is $1?" ;;
      *) break ;;
    esac
    shift
  done
  [ $# -ge 2 ] || fail "run [options] DIR COMMAND…"
  BARE_DIR=$(realpath "$1")
  shift
  mkdir -p "$BARE_CACHE"
  BARE_LOWER=$(base "$BARE_SUITE" "$with")
  exec 9>"$BARE_CACHE/runs.lock"
  flock 9
  sweep
  BARE_WORK=$(mktemp -d "$BARE_CACHE/run.XXXXXX")
  machine=""
  trap end EXIT
  trap 'exit 143' INT TERM HUP
  exec 8>"$BARE_WORK/held"
  flock 8
  exec 9>&-
  chmod 755 "$BARE_WORK"
  BARE_COMMAND="$*"
  export BARE_DIR BARE_LOWER BARE_WORK BARE_COMMAND
  # When this script is killed, its machine is, too.
  setpriv --pdeathsig KILL unshare --mount --pid --fork --kill-child "$0" enter &
  machine=$!
  wait "$machine"
}

case ${1:-} in
  run) shift; run "$@" ;;
  enter) enter ;;
  clean) rm -rf "$BARE_CACHE" ;;
  *) sed -n '2,20p' "$0"; exit 2 ;;
esac
