#!/usr/bin/env bash
# Generates everything that is derived from something else into a folder laid out like the repository:
# `make generate` gives the repository itself, `make verify-generated` an empty one to compare with.
#
#   hack/generate.sh FOLDER
set -euo pipefail
out=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
tools=bin/tools

mkdir -p "$out/api/v1alpha1" "$out/charts/castoff/crds" "$out/docs/reference" "$out/e2e/awssim/codec"

# From the API types: deepcopy, CRD, reference.
"$tools/controller-gen" object paths=./api/... output:object:dir="$out/api/v1alpha1"
"$tools/controller-gen" crd paths=./api/... output:crd:dir="$out/charts/castoff/crds"
"$tools/crd-ref-docs" --log-level=ERROR --source-path=./api --config=hack/crd-ref-docs.yaml --renderer=markdown \
	--output-path="$out/docs/reference/api.md"

# From the pinned AWS SDK: EC2's wire names, for the simulator.
(cd e2e/awssim/codec && go run ./gen -ops .. -out "$out/e2e/awssim/codec/zz_generated.ec2names.go")
