#!/bin/sh
# Brings code-server's packages into the current folder, each as the locks name it by its hash: fetch.sh LOCKS
# Nothing that is brought is run. code-server brings locks of its own for two folders, which are not complete.
set -eu
locks=$1
code=node_modules/code-server/lib/vscode
cp "$locks/package.json" "$locks/package-lock.json" .
echo "Downloading code-server …"
npm ci --ignore-scripts
for part in vscode extensions; do
  folder=$code
  [ $part = vscode ] || folder=$code/$part
  echo "Downloading packages of its $part …"
  rm -f "$folder/npm-shrinkwrap.json"
  cp "$locks/$part/package-lock.json" "$folder/"
  (cd "$folder" && npm ci --ignore-scripts --omit=dev)
done
