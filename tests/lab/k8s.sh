#!/usr/bin/env bash
# A real Kubernetes cluster of one node on a bare Debian machine (root), with the images that the tests need.
#   k8s.sh up      make its programs if need be (ten minutes, once), start it, load the images, print what to export
#   k8s.sh env     print it if everything is up; end with 1 if there is no cluster, with 3 if only an image is old
#   k8s.sh build   only make the programs
#   k8s.sh start NAME, k8s.sh kill NAME   one part: etcd apiserver containerd manager scheduler kubelet proxy
#   k8s.sh status  which parts run
#   k8s.sh down    stop it and remove all that it made; only its programs are kept, for the next time
#   k8s.sh wipe    down, and remove the programs too
# Everything is kept outside the tree, in CODEHUB_LAB_DIR/k8s; the programs under a hash of what makes them.
# Its programs also use places of the machine that every cluster uses. They are ours if, and only if, nothing was there
# when we began, which a mark in our folder says: `up` goes nowhere where somebody else's cluster is or was, and without
# the mark `down` touches nothing. The mark holds until the machine is started anew: who knows what came since.
# CODEHUB_LAB_OWNER is a process: then `down` takes only what its own `up` made, nobody else's cluster; and while it lives,
# `up` of others waits for its `down` (CODEHUB_LAB_WAIT seconds), or ends: the cluster would be taken away under them.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
lab=${CODEHUB_LAB_DIR:-/var/cache/codehub-lab}/k8s
bin=$lab/bin-$(sha256sum "$here/k8s-build.sh" | cut -c1-12)
run=$lab/run
mark=$lab/everything-outside-is-ours
pki=$run/pki
socket=$run/containerd.sock
machine=${CODEHUB_LAB_MACHINE:-} # a folder instead of /, for the test of this script
volumes=$machine/tmp/codehub-lab-pv # see k8s-build.sh
fixed=("$machine"/{var/lib/kubelet,var/log/pods,var/log/containers,var/lib/cni,run/containerd/runc/k8s.io}) # by its programs
port=16443 etcd=12379
services=10.96.0.0/16 pods=10.244.0.0/24
owner=${CODEHUB_LAB_OWNER:-} patience=${CODEHUB_LAB_WAIT:-900}
parts=(etcd apiserver containerd manager scheduler kubelet proxy)
export KUBECONFIG=$run/kubeconfig

say() { echo "k8s lab: $*" >&2; }
fail() { say "$*"; exit 1; }
pid_of() { cat "$run/$1.pid" 2>/dev/null; }
lives() { local pid; pid=$(pid_of "$1") && kill -0 "$pid" 2>/dev/null && [ "$(ps -o stat= -p "$pid" | cut -c1)" != Z ]; }
kubectl() { "$bin/kubectl" --request-timeout=20s "$@"; }
in_containerd() { "$bin/ctr" -a "$socket" -n k8s.io "$@"; }

address() { # of this machine, as others see it
  ip -4 -o addr show scope global | awk '$2 !~ /^(lo$|docker|br-|veth|cni|kcni|chw|chj)/ {sub("/.*", "", $4); print $4; exit}'
}

wait_for() { # seconds, what, command
  local until=$(($(date +%s) + $1))
  until "${@:3}" >/dev/null 2>&1; do
    [ "$(date +%s)" -lt "$until" ] || { tail -n 5 "$run"/*.log >&2; fail "not within $1 s: $2"; }
    sleep 0.1
  done
}

keys() { # one authority for everything, one administrator
  [ ! -e "$KUBECONFIG" ] || return 0
  mkdir -p "$pki"
  cd "$pki"
  openssl ecparam -name prime256v1 -genkey -noout -out ca.key
  openssl req -x509 -new -key ca.key -subj /CN=codehub-lab -days 3650 -out ca.crt
  signed() { # name, subject, extension
    openssl ecparam -name prime256v1 -genkey -noout -out "$1.key"
    openssl req -new -key "$1.key" -subj "$2" |
      openssl x509 -req -CA ca.crt -CAkey ca.key -CAcreateserial -days 3650 -out "$1.crt" -extfile <(echo "$3")
  }
  signed server /CN=kube-apiserver "subjectAltName=IP:127.0.0.1,IP:10.96.0.1,IP:$(address),DNS:kubernetes.default.svc"
  signed admin /O=system:masters/CN=admin extendedKeyUsage=clientAuth
  openssl genrsa -out accounts.key 2048
  openssl rsa -in accounts.key -pubout -out accounts.pub
  cat >"$KUBECONFIG.part" <<Y
apiVersion: v1
kind: Config
current-context: lab
clusters: [{name: lab, cluster: {server: "https://127.0.0.1:$port", certificate-authority: $pki/ca.crt}}]
users: [{name: admin, user: {client-certificate: $pki/admin.crt, client-key: $pki/admin.key}}]
contexts: [{name: lab, context: {cluster: lab, user: admin}}]
Y
  mv "$KUBECONFIG.part" "$KUBECONFIG"
}

settings() {
  mkdir -p "$run/cni" "$run/plugins" "$run/kubelet"
  cat >"$run/containerd.toml" <<T
version = 2
root = "$run/containerd/root"
state = "$run/containerd/state"
[grpc]
  address = "$socket"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "docker.io/codehub/pause:lab"
  restrict_oom_score_adj = true # where this machine may not lower it
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "$bin/cni"
    conf_dir = "$run/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      BinaryName = "$bin/runc"
[plugins."io.containerd.internal.v1.opt"]
  path = "$run/containerd/opt"
T
  cat >"$run/cni/10-lab.conflist" <<J
{"cniVersion": "0.4.0", "name": "lab", "plugins": [
 {"type": "bridge", "bridge": "kcni0", "isGateway": true, "ipMasq": true, "hairpinMode": true,
  "ipam": {"type": "host-local", "dataDir": "$run/cni/ipam", "ranges": [[{"subnet": "$pods"}]],
           "routes": [{"dst": "0.0.0.0/0"}]}},
 {"type": "portmap", "capabilities": {"portMappings": true}}, {"type": "firewall"}]}
J
  cat >"$run/kubelet.yaml" <<Y
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: $(address)
port: $((port + 3))
healthzPort: $((port + 4))
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: $pki/ca.crt}}
authorization: {mode: Webhook}
cgroupDriver: cgroupfs
failSwapOn: false
volumePluginDir: $run/plugins
evictionHard: {memory.available: 100Mi, nodefs.available: 1%, imagefs.available: 1%}
evictionPressureTransitionPeriod: 5s
imageGCHighThresholdPercent: 100
syncFrequency: 5s
volumeStatsAggPeriod: 5s
maxPods: 200
oomScoreAdj: 0
Y
}

launch() { # name, command; without the mark of the test run that may have asked for it, which it outlives: see runs.py
  lives "$1" && return
  setsid env -u CODEHUB_TEST_RUN "${@:2}" >>"$run/$1.log" 2>&1 9>&- </dev/null &
  echo $! >"$run/$1.pid"
}

start() {
  local program=$bin/kube-$1
  case $1 in
    etcd)
      launch etcd "$bin/etcd" --data-dir "$run/etcd" --log-level warn --advertise-client-urls "http://127.0.0.1:$etcd" \
        --listen-client-urls "http://127.0.0.1:$etcd" --listen-peer-urls "http://127.0.0.1:$((etcd + 1))" ;;
    apiserver)
      launch apiserver "$program" --etcd-servers="http://127.0.0.1:$etcd" --secure-port=$port \
        --advertise-address="$(address)" --service-cluster-ip-range=$services --authorization-mode=Node,RBAC \
        --client-ca-file="$pki/ca.crt" --tls-cert-file="$pki/server.crt" --tls-private-key-file="$pki/server.key" \
        --service-account-key-file="$pki/accounts.pub" --service-account-signing-key-file="$pki/accounts.key" \
        --service-account-issuer=https://kubernetes.default.svc --endpoint-reconciler-type=lease \
        --kubelet-client-certificate="$pki/admin.crt" --kubelet-client-key="$pki/admin.key" \
        --kubelet-preferred-address-types=InternalIP --allow-privileged=true ;;
    containerd)
      PATH=$bin:$PATH launch containerd "$bin/containerd" --config "$run/containerd.toml" --log-level warn ;;
    manager)
      launch manager "$bin/kube-controller-manager" --kubeconfig="$KUBECONFIG" --use-service-account-credentials \
        --service-account-private-key-file="$pki/accounts.key" --root-ca-file="$pki/ca.crt" --leader-elect=false \
        --enable-hostpath-provisioner --port=0 --secure-port=$((port + 1)) --bind-address=127.0.0.1 \
        --cert-dir="$pki/manager" --flex-volume-plugin-dir="$run/plugins" ;;
    scheduler)
      launch scheduler "$program" --kubeconfig="$KUBECONFIG" --leader-elect=false --port=0 \
        --secure-port=$((port + 2)) --bind-address=127.0.0.1 --cert-dir="$pki/scheduler" ;;
    kubelet)
      launch kubelet "$bin/kubelet" --config="$run/kubelet.yaml" --kubeconfig="$KUBECONFIG" --root-dir="$run/kubelet" \
        --cert-dir="$pki/kubelet" --hostname-override=node0 --node-ip="$(address)" --container-runtime=remote \
        --container-runtime-endpoint="unix://$socket" --image-service-endpoint="unix://$socket" ;;
    proxy)
      launch proxy "$program" --kubeconfig="$KUBECONFIG" --hostname-override=node0 --cluster-cidr=$pods \
        --proxy-mode=iptables --healthz-bind-address=127.0.0.1:$((port + 5)) --oom-score-adj=0 \
        --metrics-bind-address=127.0.0.1:$((port + 6)) --conntrack-max-per-core=0 \
        --conntrack-tcp-timeout-established=0 --conntrack-tcp-timeout-close-wait=0 ;;
    *) fail "there is no part $1" ;;
  esac
}

end() { # signal, name: returns when it is gone
  local pid
  pid=$(pid_of "$2") || return 0
  kill "-$1" "$pid" 2>/dev/null || true
  for _ in $(seq 200); do
    lives "$2" || { rm -f "$run/$2.pid"; return 0; }
    sleep 0.1
  done
  kill -KILL "$pid" 2>/dev/null || true
  rm -f "$run/$2.pid"
}

image_names() { "$here/docker.sh" env | sed -n 's/^CODEHUB_TEST_\(WORKSPACE\|JOB\|IDE\)_IMAGE=//p'; }

has_image() { [[ $'\n'$(in_containerd images ls -q)$'\n' == *$'\n'"docker.io/$1"$'\n'* ]]; }

load_images() {
  local name
  if ! has_image codehub/pause:lab; then
    tar -C "$bin" -c pause | docker import --change 'ENTRYPOINT ["/pause"]' - codehub/pause:lab >/dev/null
  fi
  for name in codehub/pause:lab $(image_names); do
    has_image "$name" && continue
    say "loading $name"
    docker save "$name" | in_containerd images import - >/dev/null
  done
}

answers() { [ -e "$KUBECONFIG" ] && kubectl get --raw /readyz >/dev/null 2>&1; }
node_is_ready() { [ "$(kubectl get node node0 -o jsonpath='{.status.conditions[?(@.type=="Ready")].status}')" = True ]; }

need() { # what is used here; iptables and docker come with docker.sh
  local program
  for program in ip:iproute2 pgrep:procps ps:procps openssl:openssl; do
    command -v "${program%:*}" >/dev/null || fail "${program%:*} is missing: install ${program#*:}"
  done
}

up() {
  [ "$(id -u)" = 0 ] || fail "only root can start a cluster"
  need
  claim
  mkdir -p "$run"
  nice -n 19 "$here/k8s-build.sh" "$bin"
  eval "$("$here/docker.sh" up | sed 's/^/export /')"
  keys 2>/dev/null
  settings
  start etcd
  start apiserver
  start containerd
  wait_for 30 "containerd answers" in_containerd version
  load_images
  wait_for 120 "the API server answers" answers
  start manager
  start scheduler
  start kubelet
  start proxy
  wait_for 60 "the default service account" kubectl get serviceaccount default
  kubectl get storageclass standard >/dev/null 2>&1 || kubectl apply -f - >/dev/null <<Y
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: standard, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}
provisioner: kubernetes.io/host-path
Y
  wait_for 90 "the node is ready" node_is_ready
}

show() {
  echo "CODEHUB_TEST_KUBECONFIG=$KUBECONFIG"
  echo "CODEHUB_TEST_KUBECTL=$bin/kubectl"
  "$here/docker.sh" env
}

firewall() { # iptables or ip6tables: what is left of the cluster's rules and chains, as orders to remove them
  local table
  for table in mangle filter nat; do
    echo "*$table"
    "$1-save" -t $table 2>/dev/null | sed -n '/^-A \(KUBE\|CNI\)-/d; /-[jg] \(KUBE\|CNI\)-/s/^-A/-D/p'
    "$1-save" -t $table 2>/dev/null | sed -n 's/^:\(\(KUBE\|CNI\)-[^ ]*\) .*/-F \1/p'
    "$1-save" -t $table 2>/dev/null | sed -n 's/^:\(\(KUBE\|CNI\)-[^ ]*\) .*/-X \1/p'
    echo COMMIT
  done
}

mounts() { awk -v below="$run/" 'index($2, below) == 1 || $2 ~ "^/(var/)?run/netns/cni-" {print $2}' "$machine/proc/mounts" | sort -r; }
cgroups() { find "$machine/sys/fs/cgroup" -depth -type d -path '*/kubepods*'; }

left() { # of all that a cluster makes
  find "$run" "${fixed[@]}" "$volumes" -maxdepth 0 2>/dev/null || true
  firewall iptables | grep '^-' || true
  firewall ip6tables | grep '^-' || true
  mounts
  cgroups
  find "$machine/run/netns" -name 'cni-*' 2>/dev/null || true
  ip -o link show kcni0 2>/dev/null || true
}

boot() { cat "$machine/proc/sys/kernel/random/boot_id"; }
is_stale() { [ -s "$mark" ] && [ "$(sed -n 1p "$mark")" != "$(boot)" ]; }
born() { [ -z "$1" ] || awk '{sub(/.*\) /, ""); print $20}' "/proc/$1/stat" 2>/dev/null || true; } # a number may be another's by now
make_mark() { printf '%s\n' "$(boot)" "$owner" "$(born "$owner")" >"$mark.part" && mv "$mark.part" "$mark"; }
owner_of_it() { sed -n 2p "$mark"; }

others() { # somebody may have installed a cluster after ours was left behind; not each has a program called kubelet
  local path pid program
  for path in "$machine"/{etc,lib,usr/lib}/systemd/system/{kubelet,k3s,k3s-agent,k0scontroller,k0sworker}.service \
    "$machine"/{var/lib/rancher,var/lib/k0s,var/snap/microk8s}; do
    [ ! -e "$path" ] || { echo "$path"; return; }
  done
  for pid in $(pgrep -x 'kubelet|k3s|k3s-server|k3s-agent|kubelite|k0s'); do
    program=$(readlink "/proc/$pid/exe") || continue
    [[ $program == "$lab"/* ]] || { echo "process $pid, $program"; return; }
  done
}

alone() {
  local found
  found=$(others)
  [ -z "$found" ] || fail "this machine has another cluster ($found): nothing was touched"
}

forget() { # a cluster that ended with the machine: only what nobody else can have made
  rm -rf --one-file-system "$run" "$volumes"
  rm "$mark"
  say "the machine was started anew since: of ${fixed[*]} nothing was touched; if no other cluster made them, remove them"
}

somebody() { # another owner than ours who lives: which process
  local found
  [ -e "$mark" ] && ! is_stale || return
  found=$(owner_of_it)
  [ -n "$found" ] && [ "$found" != "$owner" ] && grep -q '^State:.[^ZX]' "/proc/$found/status" 2>/dev/null &&
    [ "$(sed -n 3p "$mark")" = "$(born "$found")" ] && echo "$found"
}

turn() { # the lock, once nobody else who lives has the cluster; not held meanwhile, since their `down` takes it
  local until=$(($(date +%s) + patience)) whose said=
  exec 9>"$lab/lock"
  while flock -w "$patience" 9 || fail "the lock $lab/lock is held for over $patience s"; whose=$(somebody); do
    [ "$(date +%s)" -lt "$until" ] || fail "process $whose has the cluster, after $patience s still: nothing was touched"
    [ -n "$said" ] || say "waits for the cluster of process $whose, for up to $patience s"
    said=yes
    flock -u 9
    sleep 1
  done
}

claim() { # everything that a cluster uses, before anything of it is made
  local found
  ! is_stale || forget
  alone
  if [ -e "$mark" ]; then
    [ -z "$(owner_of_it)" ] || make_mark # its owner lives no more, or is ours
    return
  fi
  found=$(left)
  [ -z "$found" ] || fail "this machine has what another cluster made, such as ${found%%$'\n'*}: nothing was touched"
  make_mark
}

down() {
  [ -e "$mark" ] || return 0
  if is_stale; then forget; return; fi
  need
  alone
  set +e
  if answers; then kubectl delete pods -A --all --grace-period=0 --force >/dev/null 2>&1; fi
  for part in proxy kubelet scheduler manager; do end TERM $part; done
  if lives containerd; then
    in_containerd tasks ls -q | while read -r task; do in_containerd tasks kill -s KILL "$task"; done
    in_containerd containers ls -q | while read -r box; do
      in_containerd tasks rm -f "$box"
      in_containerd containers rm "$box"
    done
  fi >/dev/null 2>&1
  for part in apiserver etcd containerd; do end TERM $part; done
  mounts | xargs -r -n 1 umount -l 2>/dev/null
  # Some are hidden where /run/netns was mounted on itself after they were made.
  if grep -q ' /run/netns/cni-' "$machine/proc/mounts" && umount -l /run/netns; then mounts | xargs -r -n 1 umount -l; fi
  rm -f "$machine"/run/netns/cni-*
  ip link del kcni0 2>/dev/null
  for program in iptables ip6tables; do firewall $program | $program-restore --noflush; done
  cgroups | xargs -r rmdir 2>/dev/null
  rm -rf --one-file-system "$run" "$volumes" "${fixed[@]}"
  set -e
  [ -z "$(left)" ] || fail "left over: $(left)"
  rm "$mark"
}

mkdir -p "$lab"
case ${1:-up} in
  up) turn; up; show ;;
  build) exec 9>"$lab/lock"; flock 9; "$here/k8s-build.sh" "$bin" ;;
  env)
    answers || fail "no cluster answers: run $0 up"
    for name in $(image_names); do has_image "$name" || { say "$name is not loaded: run $0 up"; exit 3; }; done
    show
    ;;
  start) start "$2" ;;
  kill) end KILL "$2" ;;
  status) for part in "${parts[@]}"; do lives "$part" && echo "$part runs" || echo "$part does not run"; done ;;
  down)
    [ -e "$mark" ] || exit 0
    exec 9>"$lab/lock"
    flock 9
    if [ -n "$owner" ] && [ -e "$mark" ] && [ "$(owner_of_it)" != "$owner" ]; then
      say "the cluster is not ours: it stays"
      exit 0
    fi
    down
    ;;
  wipe) exec 9>"$lab/lock"; flock 9; down; rm -rf --one-file-system "$lab" ;;
  *) sed -n '2,9p' "$0" >&2; exit 2 ;;
esac
