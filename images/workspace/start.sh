#!/bin/sh
# Starts the IDE on port 8080. A home without settings gets those of the image; what a user changed stays.
set -eu
# In safe mode HOME is an empty folder, so that nothing is read from the home, which is where this says.
home=${CODEHUB_SAFE_MODE:-$HOME}
settings=/usr/share/codehub/settings${CODEHUB_SAFE_MODE:+-safe}.json
# After a `chmod 000 ~` nothing could start here, and nobody inside could mend it.
chmod u+rwx "$home"
user=$HOME/.local/share/code-server/User
if [ ! -e "$user/settings.json" ]; then
  mkdir -p "$user"
  cp "$settings" "$user/settings.json"
fi
# No password: only CodeHub's proxy can reach it. Sessions of closed tabs end after two minutes instead of three hours.
# Uncompressed, so that the proxy can tell what is typed from what an open tab says by itself.
export VSCODE_OPTIONS=disable-websocket-compression
exec /opt/ide/node /opt/ide/node_modules/code-server/out/node/entry.js \
  --bind-addr 0.0.0.0:8080 --auth none --disable-telemetry --disable-update-check --disable-workspace-trust \
  --disable-getting-started-override --reconnection-grace-time 120 "$home"
