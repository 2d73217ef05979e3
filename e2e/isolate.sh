#!/bin/sh
# isolate.sh HOMEDIR CMD [ARG...]
# Runs CMD in its own pid and network namespaces (with a private loopback only),
# a clean environment, HOMEDIR as /home/dev and
# /home/dev/project as the working folder. When CMD ends, every process that it left
# behind is killed with it.
#
#   ISOLATE_PATH  goes in front of PATH
#   ISOLATE_ENV   more variables, "A=1 B=2" (no blanks in the values)
#   ISOLATE_SHOW  folders, separated by colons, that must stay visible although
#                 they lie below /home
#
# It needs root, or a kernel that lets users make namespaces.
set -eu
[ $# -ge 2 ] || { echo "usage: isolate.sh HOMEDIR CMD [ARG...]" >&2; exit 2; }
home=$1
shift
mkdir -p "$home/project"
home=$(cd "$home" && pwd -P)

as_root=
[ "$(id -u)" = 0 ] || as_root=--map-root-user
ISOLATED_HOME=$home exec unshare $as_root --net --mount --pid --fork --kill-child sh -euc '
  ip link set lo up
  mount -t proc proc /proc
  # An empty folder is mounted over /home and hides everything below it. What must
  # stay visible is mounted there again, from a copy of the mount below /mnt.
  show=
  IFS=:
  for dir in ${ISOLATE_SHOW:-}; do
    case $dir in /home/*) show="$show$dir:" ;; esac
  done
  if [ -n "$show" ] || case $ISOLATED_HOME in /home/*) true ;; *) false ;; esac; then
    mount -t tmpfs tmpfs /mnt
    mkdir /mnt/home
    mount --rbind /home /mnt/home
    case $ISOLATED_HOME in /home/*) ISOLATED_HOME=/mnt$ISOLATED_HOME ;; esac
  fi
  mount -t tmpfs -o mode=755 tmpfs /home
  mkdir /home/dev
  # A program that Bun has packed unpacks a library of 14 MB into the temporary folder at
  # each start, and leaves it there. This folder vanishes with the namespace.
  mkdir -m 1777 /home/tmp
  mount --bind "$ISOLATED_HOME" /home/dev
  # There is no name server; look-ups must fail soon.
  if [ -e /etc/resolv.conf ]; then
    printf "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n" > /home/resolv.conf
    mount --bind /home/resolv.conf /etc/resolv.conf
  fi
  for dir in $show; do
    mkdir -p "$dir"
    mount --rbind "/mnt$dir" "$dir"
  done
  unset IFS
  cd /home/dev/project
  exec env -i PATH="${ISOLATE_PATH:+$ISOLATE_PATH:}/usr/local/bin:/usr/bin:/bin" HOME=/home/dev \
    TERM="${TERM:-xterm-256color}" LANG=C.UTF-8 SHELL=/bin/sh BUN_TMPDIR=/home/tmp ${ISOLATE_ENV:-} "$@"
' isolate "$@"
