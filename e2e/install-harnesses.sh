#!/bin/sh
# install-harnesses.sh DIR [latest]
# Installs the harness versions of the end-to-end tests, or the newest published
# ones, in DIR/node_modules, with their programs in DIR/node_modules/.bin, and
# OpenClaw in DIR/openclaw. If one cannot be installed, that is reported, the others
# are installed, and the exit code is 1. A stamp file for each makes a second call
# quick. Outside DIR only npm's cache changes. Only the two
# install scripts below are run.
set -eu
dir=${1:?usage: install-harnesses.sh DIR [latest]}
newest=${2:-}
mkdir -p "$dir"
cd "$dir"
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT

# install PROGRAM PACKAGE VERSION [SCRIPT]
install() (
  stamp=.pinned-$1
  [ "$(cat "$stamp" 2>/dev/null || true)" != "$2@$3" ] || exit 0
  rm -f "$stamp"
  command -v npm >/dev/null || { echo "there is no npm on this machine" >&2; exit 1; }
  [ -f package.json ] || printf '{"private":true}\n' > package.json
  npm install --ignore-scripts --save-exact --no-audit --no-fund --loglevel=error "$2@$3" >&2 || exit 1
  # A script of the package installs the native program.
  if [ -n "${4:-}" ] && [ -f "node_modules/$2/$4" ]; then
    (cd "node_modules/$2" && node "$4" >/dev/null) || exit 1
  fi
  v=$(HOME=$home timeout 60 "node_modules/.bin/$1" --version 2>/dev/null | head -n 1)
  case " $v " in
  *" $3 "*) ;;
  *) echo "it reports version \"$v\", not $3" >&2; exit 1 ;;
  esac
  echo "$1: $v"
  printf '%s\n' "$2@$3" > "$stamp"
)

# openclaw VERSION: OpenClaw needs another Node than the machine may have. Both are in
# DIR/openclaw, so that the other harnesses keep theirs.
openclaw() (
  node=24.21.0
  stamp=.pinned-openclaw
  [ "$(cat "$stamp" 2>/dev/null || true)" != "openclaw@$1 node@$node" ] || exit 0
  rm -f "$stamp"
  case $(uname -m) in
  x86_64) cpu=x64 ;;
  aarch64) cpu=arm64 ;;
  *) echo "there is no Node $node for $(uname -m)" >&2; exit 1 ;;
  esac
  command -v npm >/dev/null || { echo "there is no npm on this machine" >&2; exit 1; }
  mkdir -p openclaw && cd openclaw || exit 1
  [ -f package.json ] || printf '{"private":true}\n' > package.json
  # The first package is the Node with which npm installs the second.
  PATH=$PWD/node_modules/.bin:$PATH
  for package in "node-linux-$cpu@$node" "openclaw@$1"; do
    npm install --ignore-scripts --save-exact --no-audit --no-fund --loglevel=error "$package" >&2 || exit 1
  done
  v=$(HOME=$home timeout 60 node_modules/.bin/openclaw --version 2>/dev/null | head -n 1)
  case " $v " in
  *" $1 "*) ;;
  *) echo "it reports version \"$v\", not $1" >&2; exit 1 ;;
  esac
  echo "openclaw: $v"
  printf '%s\n' "openclaw@$1 node@$node" > "../$stamp"
)

failed=
for pin in \
  "claude @anthropic-ai/claude-code 2.1.197 install.cjs" \
  "codex @openai/codex 0.169.0" \
  "gemini @google/gemini-cli 0.61.0" \
  "opencode opencode-ai 1.18.33 postinstall.mjs"; do
  if [ -n "$newest" ]; then
    # shellcheck disable=SC2086
    set -- $pin
    if version=$(npm view --loglevel=error "$2" version); then
      pin="$1 $2 $version ${4:-}"
    fi
  fi
  # A pin is split into words on purpose.
  # shellcheck disable=SC2086
  if ! install $pin; then
    echo "install-harnesses: *** ${pin%% *} CANNOT BE INSTALLED (${pin#* }) ***" >&2
    failed=1
  fi
done
version=2026.9.6
[ -z "$newest" ] || version=$(npm view --loglevel=error openclaw version) || version=2026.9.6
if ! openclaw "$version"; then
  echo "install-harnesses: *** openclaw CANNOT BE INSTALLED ($version) ***" >&2
  failed=1
fi
[ -z "$failed" ]
