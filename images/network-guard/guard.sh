# Runs in the engine's network namespace with NET_ADMIN and nothing else: loads the rules it gets on stdin, in one
# transaction, then reads them back. Ends with 0 only if the kernel holds them and shows bridged packets to them.
#   guard TABLE BRIDGE...
set -eu
table=$1
shift
nft -f -
nft list table inet "$table" >/dev/null
if [ "$(cat /proc/sys/net/bridge/bridge-nf-call-iptables)" != 1 ]; then
  echo "bridge-nf-call-iptables is off: containers on one bridge would reach each other" >&2
  exit 3
fi
for bridge in "$@"; do
  if [ ! -e "/sys/class/net/$bridge/bridge" ]; then
    echo "there is no bridge $bridge here" >&2
    exit 4
  fi
  rules=$(nft list table inet "$table" | grep -c "\"$bridge\"" || true)
  if [ "$rules" -lt 3 ]; then
    echo "the rules for $bridge are not in force" >&2
    exit 5
  fi
done
