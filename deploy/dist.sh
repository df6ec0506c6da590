#!/usr/bin/env bash
# Makes the release: for each processor an archive with the program, its manual and its unit, what is in it (SBOM), and SHA256SUMS.
#
#   deploy/dist.sh [DIR]     into DIR, or build/dist
#
# The same commit gives the same bytes, wherever and whenever: times are those of the commit, paths are trimmed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
out=${1:-build/dist}
export LC_ALL=C TZ=UTC CGO_ENABLED=0 GOFLAGS=-trimpath GOWORK=off GOAMD64=v1 GOARM64=v8.0
umask 022
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

[[ -d .git ]] || { echo "this wants a clone: what is in the program cannot be listed from a linked worktree of git"; exit 1; }
time=$(git log -1 --format=%ct)
version=$(git describe --tags --always --abbrev=12) # a length of its own: else it grows with the clone
[[ -z $(git status --porcelain) ]] || version+=-dirty # as Go sees it: a file that git does not know counts

go build -o "$work/here" ./cmd/gatewayd
"$work/here" manual "$work/manual" >/dev/null
go build -o "$work/pack" ./deploy/pack
go -C internal/tools build -o "$work/" github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod

mkdir "$work/dist"
for arch in amd64 arm64; do
  name=gatewayd-$version-linux-$arch
  root=$work/$name
  mkdir "$root"
  GOOS=linux GOARCH=$arch go build -ldflags "-s -w -buildid= -X main.version=$version" -o "$root/gatewayd" ./cmd/gatewayd
  cp README.md systemd/gatewayd.service "$root/"
  [[ ! -f LICENSE ]] || cp LICENSE "$root/"
  cp -r "$work/manual/man1" "$work/manual/completions" "$root/"
  "$work/pack" "$root" "$time" >"$work/dist/$name.tar.gz"
  GOOS=linux GOARCH=$arch "$work/cyclonedx-gomod" app -json -std -noserial -notimestamp -main cmd/gatewayd -output "$work/dist/$name.cdx.json" . 2>"$work/said" || { cat "$work/said"; exit 1; }
done
(cd "$work/dist" && sha256sum gatewayd-* >SHA256SUMS && cat SHA256SUMS)
mkdir -p "$out" # only now: a release is there whole or not at all, and the tree that was built is the commit's
cp "$work/dist"/* "$out/"
