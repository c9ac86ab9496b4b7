#!/usr/bin/env bash
# Proves that the rules of .golangci.yml bite: writes one small offender per rule into a scratch copy of the module and
# asks golangci-lint for them, and one lawful file per kind of package that must pass.
set -euo pipefail
cd "$(dirname "$0")/.."
lint=$PWD/bin/tools/golangci-lint
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cp go.mod go.sum .golangci.yml "$scratch"

module=github.com/castoff-sh/castoff
offenders=0

# file LINTER FOLDER NAME BODY: LINTER must complain about the file; "none" must not.
file() {
	mkdir -p "$scratch/$2"
	printf '// Package %s is an example.\npackage %s\n\n%s\n' "$(basename "$2")" "$(basename "$2")" "$4" >"$scratch/$2/$1_$3.go"
	if [[ $1 != none ]]; then offenders=$((offenders + 1)); fi
}

# What offenders import of this module has nothing in it, or two of them would make a cycle, which hides every finding.
for folder in api pkg/inventory pkg/plan pkg/nodegroup controllers e2e/lab; do
	file none "$folder/leaf" empty ""
done

file depguard api/v1alpha1 client 'import _ "k8s.io/client-go/kubernetes"'
file depguard api/v1alpha1 inventory "import _ \"$module/pkg/inventory/leaf\""
file depguard pkg/inventory plan "import _ \"$module/pkg/plan/leaf\""
for pure in plan preflight translate inventory; do
	file depguard "pkg/$pure" clientgo 'import _ "k8s.io/client-go/kubernetes"'
	file depguard "pkg/$pure" runtime 'import _ "sigs.k8s.io/controller-runtime/pkg/client"'
	file depguard "pkg/$pure" aws 'import _ "github.com/aws/aws-sdk-go-v2/service/autoscaling"'
	file depguard "pkg/$pure" port "import _ \"$module/pkg/nodegroup/leaf\""
	file depguard "pkg/$pure" context 'import _ "context"'
	file depguard "pkg/$pure" random 'import _ "math/rand/v2"'
done
file none pkg/translate lawful "import (
	_ \"k8s.io/api/core/v1\"
	_ \"sigs.k8s.io/karpenter/pkg/apis/v1\"

	_ \"$module/api/leaf\"
	_ \"$module/pkg/inventory/leaf\"
)"
for port in autoscaler drain gate helm identity interruption provisioner snapshot; do
	file depguard "pkg/$port" port "import _ \"$module/pkg/nodegroup/leaf\""
	file depguard "pkg/$port" planner "import _ \"$module/pkg/plan/leaf\""
	file depguard "pkg/$port" controllers "import _ \"$module/controllers/leaf\""
done
file none pkg/nodegroup lawful "import (
	_ \"context\"

	_ \"github.com/aws/aws-sdk-go-v2/service/autoscaling\"

	_ \"$module/api/leaf\"
	_ \"$module/pkg/inventory/leaf\"
)"
file depguard pkg/drain chart 'import _ "helm.sh/helm/v3/pkg/release"'
file none pkg/helm lawful 'import _ "helm.sh/helm/v3/pkg/release"'
file depguard controllers chart 'import _ "helm.sh/helm/v3/pkg/release"'
file depguard controllers laboratory "import _ \"$module/e2e/lab/leaf\""
file depguard cmd/manager laboratory "import _ \"$module/e2e/lab/leaf\""
file depguard cmd/manager engine 'import _ "sigs.k8s.io/karpenter/pkg/operator"'
file none cmd/provisioner lawful 'import _ "sigs.k8s.io/karpenter/pkg/operator"'
file none e2e/lab lawful "import _ \"$module/pkg/plan/leaf\""

file forbidigo pkg/plan clock 'import "time"

var now = time.Now'
file forbidigo pkg/nodegroup renamed 'import clock "time"

var age = clock.Since'
file forbidigo controllers background 'import "context"

var background = context.Background'
file forbidigo controllers todo 'import "context"

var todo = context.TODO'
file forbidigo controllers random 'import "math/rand/v2"

var roll = rand.IntN'
file forbidigo pkg/drain print 'import "fmt"

func show() { fmt.Println("drained") }'
file forbidigo pkg/drain sleep 'import "time"

var wait = time.Sleep'
file none cmd/manager clock 'import "time"

var now = time.Now'

findings=$scratch/findings
status=0
(cd "$scratch" && "$lint" run --config .golangci.yml --enable-only depguard,forbidigo --issues-exit-code 3 --allow-serial-runners \
	--max-issues-per-linter 0 --max-same-issues 0 --show-stats=false --output.text.path stdout --output.text.print-issued-lines=false ./...) \
	>"$findings" 2>"$scratch/stderr" || status=$?
if [[ $status != 0 && $status != 3 ]]; then
	cat "$findings" "$scratch/stderr" >&2
	exit 1
fi

failed=0
while IFS= read -r path; do
	linter=$(basename "$path" | cut -d_ -f1)
	if [[ $linter == none ]]; then
		grep -F "$path:" "$findings" && { echo "lawful, and yet refused: $path" >&2; failed=1; }
	else
		grep -F "$path:" "$findings" | grep -qF "($linter)" || { echo "$linter lets it pass: $path" >&2; failed=1; }
	fi
done < <(cd "$scratch" && find . -name '*.go' | sed 's#^\./##' | sort)
if [[ $failed != 0 ]]; then
	cat "$findings" >&2
	exit 1
fi
echo "depguard and forbidigo refuse all $offenders offenders"
