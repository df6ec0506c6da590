#!/usr/bin/env bash
# Runs the arm64 program on an arm64 kernel: Debian's own, in an emulated machine with an ext4 disk. It makes a home, a board, a card and a
# conversation, is killed, finds them again, backs up and stops. Minutes, on a machine that is not busy.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
for needed in qemu-system-aarch64 cpio depmod mkfs.ext4 dpkg-deb apt-get; do
  command -v "$needed" >/dev/null || { echo "SKIPPED: there is no $needed here (Debian: qemu-system-arm, cpio, kmod, e2fsprogs), so arm64 is NOT run"; exit 0; }
done
at=$(mktemp -d)
trap 'rm -rf "$at"' EXIT
CGO_ENABLED=0 GOOS=linux GOARCH=arm64 go build -trimpath -ldflags '-s -w -X main.version=arm64' -o "$at/gatewayd" ./cmd/gatewayd

# A list of packages of its own, so that nothing of this machine changes.
mkdir -p "$at"/apt/lists/partial "$at"/cache/archives/partial "$at"/root/{bin,proc,sys,dev,tmp,data,etc}
apt() { apt-get -qq -o Dir::State="$at/apt" -o Dir::Cache="$at/cache" -o Dir::State::status=/dev/null -o APT::Architecture=arm64 -o APT::Architectures=arm64 "$@"; }
if ! apt update || ! (cd "$at" && apt download busybox-static linux-image-cloud-arm64 &&
  apt download "$(dpkg-deb -f linux-image-cloud-arm64_*.deb Depends | grep -o '^linux-image[^ ]*')") 2>/dev/null; then
  echo "SKIPPED: Debian's arm64 kernel cannot be fetched from here, so arm64 is NOT run"
  exit 0
fi
for package in "$at"/*.deb; do dpkg-deb -x "$package" "$at/packages"; done
modules=$(cd "$at/packages/lib/modules" && echo *)
mkdir -p "$at/root/lib/modules/$modules"
(cd "$at/packages" && find "lib/modules/$modules" \( -name 'virtio*.ko' -o -name ext4.ko -o -name jbd2.ko -o -name mbcache.ko -o -name 'crc*.ko' -o -name libcrc32c.ko \
  -o -name 'modules.order' -o -name 'modules.builtin*' \) -exec cp --parents {} "$at/root" \;)
depmod -b "$at/root" "$modules"
cp "$at/packages/bin/busybox" "$at/root/bin/"
cp "$at/gatewayd" "$at/root/gatewayd"
cp deploy/arm64.init "$at/root/init"
chmod +x "$at/root/init"
(cd "$at/root" && find . | cpio -o -H newc 2>/dev/null | gzip -1) >"$at/initrd"
truncate -s 512M "$at/disk" && mkfs.ext4 -q -F "$at/disk"

timeout "${ARM64_SECONDS:-900}" qemu-system-aarch64 -M virt -cpu cortex-a57 -smp 2 -m 1024 -nographic -no-reboot -nic none -kernel "$at/packages/boot/vmlinuz-$modules" \
  -initrd "$at/initrd" -append 'console=ttyAMA0 quiet panic=-1' -drive file="$at/disk",if=none,format=raw,id=disk -device virtio-blk-pci,drive=disk \
  </dev/null | tee "$at/log" || true
tr -d '\r' <"$at/log" | grep -qx 'everything was found again' || { echo "FAILED: see above"; exit 1; }
