#!/bin/sh
# Installs the LoopX releases and the Node.js runtime that the interop tests run
# against, into a private folder. Nothing outside that folder is written. Two earlier
# releases stand beside the current one, in FOLDER/loopx-VERSION: they write legacy files.
#
#   scripts/interop-install.sh [FOLDER]      (default: .interop in the repository)
#
# Afterwards: FOLDER/env.sh sets PATH and the variables a caller needs.
#
# Exit status: 0 ready; 2 usage; 3 a package registry does not answer (a caller
# may skip); 4 python3, its venv module, or npm is missing; 1 anything else.
set -u

LOOPX_VERSION=2.1.1
LOOPX_EARLIER='0.5.1 0.5.2'
NODE_VERSION=24.21.0

say()  { printf 'interop-install: %s\n' "$*" >&2; }
fail() { code=$1; shift; say "$*"; exit "$code"; }

[ $# -le 1 ] || fail 2 "usage: interop-install.sh [FOLDER]"
repo=$(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd) || exit 1
target=${1:-"$repo/.interop"}
[ -n "$target" ] || fail 2 "the folder must not be empty"
mkdir -p -- "$target" || fail 1 "cannot create $target"
target=$(CDPATH= cd -- "$target" && pwd) || exit 1

# Subfolders are replaced below, so a folder that is not ours is never taken.
marker=$target/.loopx-migrate-interop
if [ ! -e "$marker" ]; then
    [ -z "$(ls -A -- "$target")" ] || fail 2 "$target is not empty and was not made by this script; name another folder"
    : >"$marker" || fail 1 "cannot write in $target"
fi

venv=$target/loopx
node_home=$target/node
node_bin=$node_home/node_modules/.bin
state=$target/home

have_loopx() { # folder, version
    [ -x "$1/bin/loopx" ] && [ -x "$1/bin/python" ] &&
        [ "$("$1/bin/python" -c 'from importlib.metadata import version; print(version("loopx"))' 2>/dev/null)" = "$2" ]
}
have_node() {
    [ -x "$node_bin/node" ] && [ "$("$node_bin/node" --version 2>/dev/null)" = "v$NODE_VERSION" ]
}

# A failed installation is "the registry does not answer" when the log says so.
unreachable() {
    grep -Eiq 'could not resolve|name resolution|getaddrinfo|ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|network (is|error)|ERR_SOCKET|SELF_SIGNED|certificate|timed out|Connection (refused|reset|broken|aborted)|Max retries|NewConnectionError|ProxyError|EPROXY|50[0-9] (Bad|Service|Gateway|Internal)|E50[0-9]|E403|E407|No matching distribution|from versions: none|E404|ETARGET|ENOTCACHED' "$1" &&
        ! grep -Eq 'No space left|ENOSPC' "$1"
}
install_failed() { # what, log
    tail -n 15 "$2" >&2
    if unreachable "$2"; then fail 3 "$1 could not be fetched: the package registry does not answer or does not offer it"; fi
    fail 1 "installing $1 failed (log: $2)"
}

install_loopx() { # folder, version
    have_loopx "$1" "$2" && return
    command -v python3 >/dev/null 2>&1 || fail 4 "python3 is missing (LoopX $2 needs Python 3.11 or later)"
    python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
        fail 4 "python3 is $(python3 -V 2>&1 | cut -d" " -f2), but LoopX $2 needs 3.11 or later"
    python3 -c 'import venv, ensurepip' >/dev/null 2>&1 ||
        fail 4 "python3 lacks the venv or ensurepip module (Debian: python3-venv)"
    log=$1-install.log
    rm -rf -- "$1"
    python3 -m venv "$1" >"$log" 2>&1 || { tail -n 15 "$log" >&2; fail 1 "python3 -m venv failed"; }
    "$1/bin/python" -m pip install --disable-pip-version-check --no-input --retries 2 --timeout 30 \
        "loopx==$2" >>"$log" 2>&1 || { rm -rf -- "$1"; install_failed "loopx $2 (PyPI)" "$log"; }
    have_loopx "$1" "$2" || fail 1 "loopx was installed, but does not report version $2"
}

install_loopx "$venv" "$LOOPX_VERSION"
for version in $LOOPX_EARLIER; do
    install_loopx "$target/loopx-$version" "$version"
done

if ! have_node; then
    command -v npm >/dev/null 2>&1 || fail 4 "npm is missing (it fetches Node.js $NODE_VERSION as the package \"node\")"
    log=$target/node-install.log
    rm -rf -- "$node_home"
    mkdir -p -- "$node_home" || fail 1 "cannot create $node_home"
    printf '{"name":"loopx-migrate-interop","private":true}\n' >"$node_home/package.json"
    npm install --prefix "$node_home" --no-audit --no-fund --no-save --fetch-retries=2 --fetch-timeout=60000 \
        "node@$NODE_VERSION" >"$log" 2>&1 || { rm -rf -- "$node_home"; install_failed "node $NODE_VERSION (npm)" "$log"; }
    have_node || fail 1 "node was installed, but $node_bin/node is not v$NODE_VERSION"
fi

mkdir -p -- "$state/tmp" || fail 1 "cannot create $state"
# HOME and TMPDIR are private: LoopX keeps settings in the one and a background
# runtime per TMPDIR in the other. The runtime ends after 20 idle seconds.
quoted=$(printf '%s' "$target" | sed "s/'/'\\\\''/g")
cat >"$target/env.sh" <<EOF
interop='$quoted'
export PATH="\$interop/node/node_modules/.bin:\$interop/loopx/bin:\$PATH"
export HOME="\$interop/home" TMPDIR="\$interop/home/tmp"
export LOOPX_USAGE_PING=0 LOOPX_EFFECT_RUNTIME_IDLE_MS=20000
EOF
printf '%s\n' "$target"
exit 0
