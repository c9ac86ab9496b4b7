#!/usr/bin/env bash
# Generates everything that is derived from the API types into a folder laid out like the repository:
# `make generate` gives the repository itself, `make verify-generated` an empty one to compare with.
#
#   hack/generate.sh FOLDER
set -euo pipefail
out=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
tools=bin/tools

mkdir -p "$out/api/v1alpha1" "$out/charts/castoff/crds" "$out/docs/reference"
"$tools/controller-gen" object paths=./api/... output:object:dir="$out/api/v1alpha1"
"$tools/controller-gen" crd paths=./api/... output:crd:dir="$out/charts/castoff/crds"
"$tools/crd-ref-docs" --log-level=ERROR --source-path=./api --config=hack/crd-ref-docs.yaml --renderer=markdown \
	--output-path="$out/docs/reference/api.md"
