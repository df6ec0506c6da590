#!/usr/bin/env bash
# Makes the release: for each processor an archive with the program, its manual and its unit, what is in it (SBOM), and SHA256SUMS.
#
#   deploy/dist.sh [DIR]     into DIR, or build/dist
#
# The same commit gives the same bytes, wherever and whenever: times are those of the commit, paths are trimmed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
out=${1:-build/dist}
mkdir -p "$out"
out=$(cd "$out" && pwd)
export LC_ALL=C TZ=UTC CGO_ENABLED=0 GOFLAGS= GOWORK=off GOAMD64=v1 GOARM64=v8.0
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
version=$(git describe --tags --always --dirty)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022

# static FILE fails when the program needs anything else of the machine.
static() {
  local told
  told=$(readelf -ldW "$1")
  ! grep -qE 'INTERP|\(NEEDED\)|DYNAMIC' <<<"$told" || { echo "$1 is not static"; return 1; }
}

command -v readelf >/dev/null || { echo "readelf is missing: install binutils"; exit 1; }
go build -o "$work/here" -trimpath ./cmd/gatewayd
"$work/here" manual "$work/manual" >/dev/null
go -C internal/tools build -o "$work/" github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod

for arch in amd64 arm64; do
  name=gatewayd-$version-linux-$arch
  root=$work/$name
  mkdir "$root"
  GOOS=linux GOARCH=$arch go build -trimpath -ldflags "-s -w -buildid= -X main.version=$version" -o "$root/gatewayd" ./cmd/gatewayd
  static "$root/gatewayd"
  cp README.md systemd/gatewayd.service "$root/"
  [[ ! -f LICENSE ]] || cp LICENSE "$root/"
  cp -r "$work/manual/man1" "$work/manual/completions" "$root/"
  tar -C "$work" --sort=name --format=ustar --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX -cf - "$name" | gzip -9n >"$out/$name.tar.gz"
  GOOS=linux GOARCH=$arch "$work/cyclonedx-gomod" app -json -std -noserial -notimestamp -main cmd/gatewayd -output "$out/$name.cdx.json" . 2>"$work/said" || { cat "$work/said"; exit 1; }
done
cd "$out"
sha256sum gatewayd-"$version"-* >SHA256SUMS
cat SHA256SUMS
