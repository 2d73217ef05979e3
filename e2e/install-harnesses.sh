#!/bin/sh
# install-harnesses.sh DIR
# Puts the harness versions that the end-to-end tests were written against into
# DIR/node_modules, with their programs in DIR/node_modules/.bin. A stamp of the
# pinned versions makes a second call free. Set E2E_MORE_HARNESSES=1 for Gemini
# CLI and OpenCode as well. Nothing outside DIR is touched but npm's own cache.
set -eu
dir=${1:?usage: install-harnesses.sh DIR}

pins="@anthropic-ai/claude-code@2.1.197 @openai/codex@0.169.0"
programs="claude codex"
if [ -n "${E2E_MORE_HARNESSES:-}" ]; then
  pins="$pins @google/gemini-cli@0.61.0 opencode-ai@1.18.33"
  programs="$programs gemini opencode"
fi

mkdir -p "$dir"
cd "$dir"
stamp=.pinned
if [ "$(cat "$stamp" 2>/dev/null || true)" = "$pins" ]; then
  exit 0
fi
rm -f "$stamp"
command -v npm >/dev/null || { echo "install-harnesses: there is no npm on this machine" >&2; exit 1; }
[ -f package.json ] || printf '{"private":true}\n' > package.json
# The list of packages is split into words on purpose.
# shellcheck disable=SC2086
npm install --no-audit --no-fund --loglevel=error $pins
# Claude Code's package fetches its native program in a script of its own,
# which an npm that ignores install scripts has not run.
claude=node_modules/@anthropic-ai/claude-code
[ ! -f "$claude/install.cjs" ] || (cd "$claude" && node install.cjs >/dev/null)

home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
for p in $programs; do
  v=$(HOME=$home timeout 60 "node_modules/.bin/$p" --version 2>/dev/null | head -n 1)
  [ -n "$v" ] || { echo "install-harnesses: $p does not start" >&2; exit 1; }
  echo "$p: $v"
done
printf '%s\n' "$pins" > "$stamp"
