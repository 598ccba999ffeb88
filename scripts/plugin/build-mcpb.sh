#!/bin/sh
# Builds the MCP bundle for hosts without plugins: build-mcpb.sh [OUT]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-warren.mcpb}
case $out in /*) ;; *) out=$PWD/$out ;; esac
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
mkdir "$tmp/server"
(cd "$here/../.." && CGO_ENABLED=0 go build -trimpath -o "$tmp/server/warren" ./cmd/warren)
cp "$here/manifest.json" "$tmp/"
rm -f "$out"
if command -v zip >/dev/null; then
    (cd "$tmp" && zip -q -r "$out" manifest.json server)
else
    (cd "$tmp" && python3 -m zipfile -c "$out" manifest.json server)
fi
echo "$out"
