#!/bin/sh
# As the image `postgres` starts: the data is made once, its user and password are those of the environment.
set -eu
if [ "$1" != postgres ]; then exec "$@"; fi
data=${PGDATA:-/var/lib/postgresql/18/docker}
if [ "$(id -u)" = 0 ]; then
  chown postgres: /var/lib/postgresql /var/run/postgresql
  exec setpriv --reuid postgres --regid postgres --clear-groups --no-new-privs sh "$0" "$@"
fi
if [ ! -e "$data/PG_VERSION" ]; then
  mkdir -p "$data"
  initdb --pgdata "$data" --username "$POSTGRES_USER" --pwfile "$POSTGRES_PASSWORD_FILE" --auth scram-sha-256 \
    --locale C.UTF-8 >/dev/null
  echo 'host all all all scram-sha-256' >>"$data/pg_hba.conf"
  echo "CREATE DATABASE $POSTGRES_DB" | postgres --single -D "$data" postgres >/dev/null
fi
exec postgres -D "$data" -c listen_addresses='*' -c unix_socket_directories=/var/run/postgresql
