#!/usr/bin/env bash
# The README's two commands on a machine that has nothing but git: a Debian 12 made by debootstrap in a folder, a clone of
# the last commit of this checkout in it, and both commands in that clone, one after the other. Needs root, debootstrap
# and Debian's mirror. What it mounts is seen by its own processes alone and is gone with them.
#
# usage: tests/ci/fresh_machine.sh [--order train,test | test,train | train | test] [--cache DIR|none]
#                                  [--folder DIR] [--keep] [--train "KEY=VALUE ..."]
#   --cache DIR   a ccache folder to use ("none": compile everything; default: this machine's own)
#   --folder DIR  where the machine is made (default: a new folder under $TMPDIR or /tmp); must not exist
#   --keep        leave the folder behind
#   --train WORDS more words for ./bootstrap train, such as train.steps=50
set -euo pipefail
source_dir=$(cd "$(dirname "$0")/../.." && pwd)
order=train,test folder="" keep=no train=""
cache=$(ccache -k cache_dir 2>/dev/null || echo none)
while [ $# -gt 0 ]; do
  case "$1" in
    --keep) keep=yes; shift ;;
    --order|--cache|--folder|--train)
      [ $# -ge 2 ] || { echo "fresh_machine.sh: $1 needs a value" >&2; exit 2; }
      declare "${1#--}=$2"; shift 2 ;;
    *) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0" >&2; exit 2 ;;
  esac
done
[ "$(id -u)" -eq 0 ] || { echo "fresh_machine.sh: only root can make a machine; run it as root" >&2; exit 77; }
command -v debootstrap >/dev/null || { echo "fresh_machine.sh: needs debootstrap (apt-get install debootstrap)" >&2; exit 77; }
folder=${folder:-${TMPDIR:-/tmp}/dslaunch-fresh.$$}
[ ! -e "$folder" ] || { echo "fresh_machine.sh: $folder exists; name a new folder" >&2; exit 2; }

clean_up() {
  [ "$keep" = yes ] && echo "fresh_machine.sh: the machine is left in $folder" && return
  rm -rf --one-file-system "$folder"
}
trap clean_up EXIT

mirror=$(grep -rhoE 'https?://[^ ]*/debian/?( |$)' /etc/apt/sources.list /etc/apt/sources.list.d 2>/dev/null | head -n 1 | tr -d " " || true)
began=$SECONDS
debootstrap --variant=minbase --include=git,ca-certificates bookworm "$folder" "${mirror:-http://deb.debian.org/debian}" \
  >"/tmp/dslaunch-debootstrap.$$" 2>&1 || { tail -n 20 "/tmp/dslaunch-debootstrap.$$" >&2; exit 69; }
rm -f "/tmp/dslaunch-debootstrap.$$"
echo "fresh_machine.sh: a bare Debian 12 after $((SECONDS - began)) s"
cp /etc/resolv.conf "$folder/etc/resolv.conf"
git -C "$source_dir" bundle create -q "$folder/root/dslaunch.bundle" HEAD
[ "$cache" = none ] || mkdir -p "$cache" "$folder/root/.cache/ccache"

cat >"$folder/root/inside.sh" <<'INSIDE'
set -eu
cd /root
git -c advice.detachedHead=false clone -q dslaunch.bundle dslaunch
cd dslaunch
for command in $1; do
  began=$(date +%s)
  # shellcheck disable=SC2086  # words
  case $command in train) ./bootstrap train $2 ;; *) ./bootstrap "$command" ;; esac
  echo "fresh_machine.sh: ./bootstrap $command passed after $(($(date +%s) - began)) s"
done
INSIDE

export DS_FRESH_FOLDER=$folder DS_FRESH_CACHE=$cache DS_FRESH_ORDER=${order//,/ } DS_FRESH_TRAIN=$train
unshare --mount --pid --fork --kill-child bash -eu <<'MOUNTED'
cd "$DS_FRESH_FOLDER"
mount -t proc proc proc
mount --rbind /sys sys
mount --rbind /dev dev
[ "$DS_FRESH_CACHE" = none ] || mount --bind "$DS_FRESH_CACHE" root/.cache/ccache
chroot . env -i HOME=/root USER=root LANG=C.UTF-8 PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
  bash /root/inside.sh "$DS_FRESH_ORDER" "$DS_FRESH_TRAIN"
MOUNTED
