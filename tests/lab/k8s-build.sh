#!/usr/bin/env bash
# Makes the programs of a Kubernetes cluster from Debian bookworm alone (no registry carries them): k8s-build.sh TARGET
# kube-apiserver, kube-controller-manager, kube-scheduler, kubelet and kube-proxy 1.20 are compiled from the source
# package; etcd, containerd, runc, the CNI plugins and kubectl are taken from binary ones. Nothing is installed.
# Without the clouds' and Docker's code in them they take about half the time that upstream's makefile needs.
set -euo pipefail

target=$1
work=$target.work
root=$work/root
source=$work/go/src/k8s.io/kubernetes
packages=(golang-1.19-go golang-1.19-src etcd-server containernetworking-plugins kubernetes-client containerd runc)

say() { echo "k8s lab: $*" >&2; }

apt_here() { # an apt of our own: bookworm's packages and sources, whatever this machine is set up for
  "$1" -qq -o Dir::Etc="$work/apt/etc" -o Dir::Etc::parts="$work/apt/etc/parts" -o Dir::State="$work/apt/state" \
    -o Dir::Etc::sourcelist="$work/apt/etc/sources.list" -o Dir::Etc::sourceparts=/dev/null \
    -o Dir::State::status="$work/apt/state/status" -o Dir::Cache="$work/apt/cache" -o APT::Sandbox::User=root "${@:2}"
}

fetch() {
  [ ! -e "$work/fetched" ] || return 0
  say "fetching Debian's packages"
  rm -rf "$work"
  mkdir -p "$work"/apt/{etc/parts,etc/preferences.d,state/lists/partial,cache/archives/partial} "$work/debs" "$source"
  cp /var/lib/dpkg/status "$work/apt/state/status"
  local mirror # the one that this machine uses
  mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | grep '/debian$' | head -n 1)
  mirror="[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] ${mirror:?this machine has no mirror of Debian}"
  printf '%s\n' "deb $mirror bookworm main" "deb-src $mirror bookworm main" >"$work/apt/etc/sources.list"
  apt_here apt-get update
  cd "$work/debs"
  apt_here apt-get download "${packages[@]}"
  apt_here apt-get source --download-only kubernetes
  for deb in *.deb; do dpkg -x "$deb" "$root"; done
  tar xzf kubernetes_*.orig.tar.gz -C "$source" --strip-components 1
  # Volumes that are made on demand are folders below /tmp; these are ours.
  sed -i 's#basePath: "hostpath_pv"#basePath: "codehub-lab-pv"#' "$source/pkg/volume/hostpath/host_path.go"
  touch "$work/fetched"
}

compile() {
  export GOROOT=$root/usr/lib/go-1.19 GOPATH=$work/go GOCACHE=$work/cache GO111MODULE=off CGO_ENABLED=0 HOME=$work
  export PATH=$GOROOT/bin:$PATH
  cd "$source"
  # The one generated file that the source package lacks.
  go build -o "$work/openapi-gen" ./vendor/k8s.io/kube-openapi/cmd/openapi-gen
  local inputs
  inputs=$(grep -rl --include='*.go' '+k8s:openapi-gen=' staging/src/k8s.io pkg cmd plugin |
    grep -v 'code-generator\|sample-\|_test.go\|/testdata/\|_examples' | xargs -n 1 dirname | sort -u |
    sed 's#^staging/src/#k8s.io/kubernetes/vendor/#; s#^\(pkg\|cmd\|plugin\)/#k8s.io/kubernetes/\1/#' | paste -sd,)
  "$work/openapi-gen" --logtostderr -i "$inputs" -p k8s.io/kubernetes/pkg/generated/openapi -O zz_generated.openapi \
    -h vendor/k8s.io/code-generator/hack/boilerplate.go.txt -r "$work/violations"
  local flags=-s\ -w part value
  for part in component-base/version client-go/pkg/version; do
    for value in gitVersion=v1.20.2 gitMajor=1 gitMinor=20 gitTreeState=clean buildDate=2021-01-13T13:20:00Z; do
      flags+=" -X k8s.io/kubernetes/vendor/k8s.io/$part.$value"
    done
  done
  mkdir -p "$work/bin"
  go build -trimpath -tags providerless,dockerless -ldflags "$flags" -o "$work/bin/" \
    ./cmd/kube-apiserver ./cmd/kube-controller-manager ./cmd/kube-scheduler ./cmd/kubelet ./cmd/kube-proxy
  gcc -Os -static -s -DVERSION=lab -o "$work/bin/pause" build/pause/linux/pause.c
}

[ ! -e "$target" ] || exit 0
for program in gcc openssl; do
  command -v $program >/dev/null || { say "$program is missing: apt-get install gcc libc6-dev openssl"; exit 1; }
done
fetch
say "compiling Kubernetes; ten minutes on two cores"
(compile) >"$work/log" 2>&1 || { tail -n 20 "$work/log" >&2; say "compiling failed; all it said is in $work/log"; exit 1; }
mkdir -p "$target.part/cni"
cp -a "$root"/usr/lib/cni/. "$target.part/cni"
cp "$work"/bin/* "$root"/usr/bin/{etcd,kubectl,containerd,containerd-shim-runc-v2,ctr} "$root/usr/sbin/runc" "$target.part"
mv "$target.part" "$target"
rm -rf "$work"
