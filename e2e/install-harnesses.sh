#!/bin/sh
# install-harnesses.sh DIR [latest]
# Installs the harness versions of the end-to-end tests, or the newest published
# ones, in DIR/node_modules, with their programs in DIR/node_modules/.bin. If one cannot be installed, that is
# reported, the others are installed, and the exit code is 1. A stamp file for each
# makes a second call quick. Outside DIR only npm's cache changes. Only the two
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
[ -z "$failed" ]
