#!/usr/bin/env bash
# Fails when a generated file in the repository is not what hack/generate.sh writes today.
set -euo pipefail
cd "$(dirname "$0")/.."
fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT

hack/generate.sh "$fresh"
stale=0
while IFS= read -r -d '' file; do
	diff -u "$file" "$fresh/$file" || stale=1
done < <(cd "$fresh" && find . -type f -print0)
if [[ $stale == 1 ]]; then
	echo "generated files are stale: run 'make generate' and commit the result" >&2
	exit 1
fi
