#!/bin/sh
# Makes code-server of what fetch.sh brought into the current folder, without a network: build.sh HEADERS
# This is where code of those packages runs; HEADERS is the folder of the Node.js whose headers they are built against.
# Of other native modules there are binaries for Linux in the packages, or they are for other systems.
set -eu
top=$PWD
code=$top/node_modules/code-server/lib/vscode
for module in kerberos @vscode/native-watchdog @vscode/spdlog @vscode/sqlite3; do
  echo "Building $module …"
  (cd "$code/node_modules/$module" && node "$top/node_modules/node-gyp/bin/node-gyp.js" rebuild --nodedir="$1")
done
# What code-server's own installation does beside.
ln -sf code-linux.sh "$code/bin/remote-cli/code-server"
ln -sf browser-linux.sh "$code/bin/helpers/browser.sh"
node "$code/extensions/postinstall.mjs"
# What no workspace needs: Copilot, binaries for other systems, sources of what is compiled, maps, what built it.
find node_modules -name '*.map' -delete
find node_modules -type d \( -path '*@github/copilot*' -o -path '*mxc-sdk*' -o -path '*sqlite3/deps' \
  -o -path '*/node_modules/.cache' -o -name 'win32-*' -o -name 'darwin-*' \) -prune -exec rm -rf {} +
