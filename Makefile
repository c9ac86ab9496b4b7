# Everything is built from Go modules: a machine needs Go, git, make and a C compiler, nothing else.
# `make help` lists what there is.

SHELL       := bash
.SHELLFLAGS := -eu -o pipefail -c
MAKEFLAGS   += --no-builtin-rules --no-print-directory
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

GO ?= go

# One build cache serves build, vet, lint and the lab; the race detector alone needs cgo.
export CGO_ENABLED := 0

# The first build of a package tree is silent for minutes without a count.
COUNT_PACKAGES := awk '/^[^ :\#]+$$/ { if (++n % 100 == 0) { printf "    %d packages compiled\n", n; fflush() } next } { print; fflush() }'

# The version that binaries say they are, and the tag of the images that kubectl-castoff names: the chart's.
VERSION := $(shell awk '$$1 == "appVersion:" { print $$2 }' charts/castoff/Chart.yaml)

# $(1): package, $(2): folder of its module. No VCS stamp: a commit alone is no reason to link everything anew.
define go_build
@echo "==> build $@"
@mkdir -p $(@D)
@cd $(2) && $(GO) build -v -p 2 -buildvcs=false -ldflags "-s -w -X main.version=$(VERSION)" -o $(CURDIR)/$@ $(1) 2>&1 | $(COUNT_PACKAGES)
endef

include e2e/tools/build.mk

##@ Set up

KEEP ?=

.PHONY: demo
demo: build-lab ## A whole migration in a local lab, with a report; KEEP=1 leaves the lab up
	@echo "==> demo: Ctrl-C stops everything it started"
	@exec bin/lab demo $(if $(filter-out 0,$(KEEP)),--keep)

.PHONY: test
test: build-lab test-unit test-prometheus test-api test-crash test-migration ## Unit, ports, API, crash tests, and one whole migration in the lab

##@ Build

LAB := bin/manager bin/provisioner bin/kubectl-castoff bin/awssim bin/ca-standin bin/lab

.PHONY: build
build: bin/manager bin/provisioner bin/kubectl-castoff ## The operator, the engine and the kubectl plugin

.PHONY: build-lab
build-lab: first-time $(CONTROL_PLANE) $(LAB) ## Everything the lab runs: control plane, engine, operator, simulator, stand-in

.PHONY: first-time
first-time:
	@[[ -x bin/kwok && -x bin/provisioner ]] || echo "==> the control plane and the engine are built from source: minutes the first time, seconds after it"

# Go's own build cache decides what is to be done.
.PHONY: $(LAB)
bin/manager bin/provisioner bin/kubectl-castoff:
	$(call go_build,./cmd/$(@F),.)
bin/awssim bin/ca-standin bin/lab:
	$(call go_build,./e2e/cmd/$(@F),.)

TOOLS := bin/tools/controller-gen bin/tools/crd-ref-docs bin/tools/golangci-lint bin/tools/licenses
$(TOOLS): tools/go.mod tools/go.sum $(wildcard tools/*/*.go)
bin/tools/controller-gen:
	$(call go_build,sigs.k8s.io/controller-tools/cmd/controller-gen,tools)
bin/tools/crd-ref-docs:
	$(call go_build,github.com/elastic/crd-ref-docs,tools)
bin/tools/golangci-lint bin/tools/licenses:
	$(call go_build,./$(@F),tools)

.PHONY: generate
generate: bin/tools/controller-gen bin/tools/crd-ref-docs ## Deepcopy, CRDs, the API reference, the simulator's wire names
	@hack/generate.sh .

.PHONY: fmt
fmt: bin/tools/golangci-lint ## Format the Go code
	@bin/tools/golangci-lint fmt

.PHONY: clean
clean: ## Remove what was built here (Go's own cache stays)
	@rm -rf bin .lab

##@ Test

# Packages by what their tests need. What is in neither of the first two needs nothing, and runs in test-unit; tests that
# need the lab are behind the build tag "lab", the long ones behind "long" as well.
API_PACKAGES   := ./api/... ./pkg/autoscaler/... ./pkg/drain/... ./pkg/helm/... ./pkg/identity/... ./pkg/provisioner/... ./pkg/snapshot/...
CRASH_PACKAGES := ./controllers/...
LAB_PACKAGES   := ./e2e/lab ./e2e/tests
ENVTEST        := KUBEBUILDER_ASSETS=$(CURDIR)/bin
GO_TEST        := $(GO) test -p 2
GO_TEST_RACE   := CGO_ENABLED=1 $(GO_TEST) -race
FLAGS          ?=

# The engine's main is real Karpenter: building it once more for the race detector takes longer than everything else
# together, so its tests run in the lab's build.
ENGINE_PACKAGES := ./cmd/provisioner/...
unit_packages = $$($(GO) list ./... | grep -vxFf <($(GO) list -e $(API_PACKAGES) $(CRASH_PACKAGES) $(ENGINE_PACKAGES)))

.PHONY: test-unit
test-unit: ## Pure packages, simulator and commands, with the race detector
	@echo "==> test: unit"
	@$(GO_TEST_RACE) $(FLAGS) $(unit_packages)
	@$(GO_TEST) $(FLAGS) $(ENGINE_PACKAGES)

.PHONY: test-prometheus
test-prometheus: ## Gates against a real Prometheus, and the chart's alert rules in its rule engine; a minute and a half to build at first
	@echo "==> test: Prometheus"
	@cd e2e/prometheus && $(GO_TEST) $(FLAGS) ./...

.PHONY: test-api
test-api: bin/etcd bin/kube-apiserver bin/kubectl ## The API's rules and the Kubernetes ports, against a real API server
	@echo "==> test: API and ports"
	@$(ENVTEST) $(GO_TEST_RACE) $(FLAGS) $(API_PACKAGES)

.PHONY: test-crash
test-crash: ## The whole controller, stopped before and after every write
	@echo "==> test: controllers, with the race detector and a sample of the crash tests"
	@$(GO_TEST_RACE) $(FLAGS) $(CRASH_PACKAGES)
	@echo "==> test: crash everywhere"
	@mkdir -p bin && rm -f bin/crash-report.json
	@CRASH_SAMPLE=1 CRASH_REPORT=$(CURDIR)/bin/crash-report.json $(GO_TEST) -count 1 -run '^TestCrash' $(FLAGS) $(CRASH_PACKAGES)
	@cat bin/crash-report.json

.PHONY: test-migration
test-migration: build-lab ## One whole migration in the lab
	@echo "==> test: a whole migration in the lab"
	@$(GO_TEST) -tags lab -p 1 -count 1 -timeout 20m $(FLAGS) $(LAB_PACKAGES)

.PHONY: test-lab
test-lab: build-lab ## The long lab suite: the way back, known-bad runs and faults (not part of make test, nor the other way)
	@echo "==> test: the long lab suite"
	@$(GO_TEST) -tags lab,long -p 1 -count 1 -timeout 90m -v -skip '^TestWholeMigration$$' $(FLAGS) $(LAB_PACKAGES)

.PHONY: rollback-report
rollback-report: build-lab ## Of the long suite: there and back, with pauses and crashes, compared with what was before
	@echo "==> test: the way back in the lab"
	@mkdir -p bin && rm -f bin/rollback-report.json
	@$(GO_TEST) -tags lab,long -p 1 -count 1 -timeout 60m -v -run '^TestWayBack$$' $(FLAGS) ./e2e/tests
	@cat bin/rollback-report.json

.PHONY: handover-report
handover-report: build-lab ## Of the long suite: 24 changes of hands and as many back, with 14 and with 200 legacy nodes, and how long pools are without a scaler
	@echo "==> test: hand-overs in the lab"
	@mkdir -p bin && rm -f bin/handover-report.json
	@$(GO_TEST) -tags lab,long -p 1 -count 1 -timeout 60m -v -run '^TestHandOver$$' $(FLAGS) ./e2e/tests
	@cat bin/handover-report.json

.PHONY: bench-pure
bench-pure: ## Benchmarks of the pure packages, and of reading and judging 1,000 nodes, which fails over its budget
	@$(GO_TEST) -run '^$$' -bench . -benchmem $(FLAGS) ./pkg/... ./controllers

WAYS ?= castoff,castoffSurge,kubectlDrain,drainAll

.PHONY: bench
bench: build-lab ## castoff against kubectl drain in the lab, half an hour, report in bin/bench.json; WAYS=castoff measures one of them anew
	@echo "==> bench: $(WAYS)"
	@exec bin/lab bench --ways $(WAYS)

NODES ?= 300
PODS  ?= 3000

.PHONY: bench-scale
bench-scale: build-lab ## castoff alone on a large cluster, against its budgets; NODES=1000 PODS=10000
	@echo "==> bench: $(NODES) nodes, $(PODS) pods"
	@exec bin/lab bench --scale --nodes $(NODES) --pods $(PODS) --timeout 3h --report bin/bench-scale-$(NODES).json

##@ Verify

MODULES := . tools e2e/tools e2e/prometheus

.PHONY: verify
verify: verify-tidy verify-generated vet lint test-lint-rules licenses ## Stale generated files, untidy modules, vet, lint, licences
	@echo "==> verify: all fine"

.PHONY: verify-tidy
verify-tidy: ## go.mod and go.sum of every module are tidy
	@for module in $(MODULES); do echo "==> verify: $$module/go.mod is tidy"; (cd $$module && $(GO) mod tidy -diff); done

.PHONY: verify-generated
verify-generated: bin/tools/controller-gen bin/tools/crd-ref-docs ## Generated files are what make generate writes
	@echo "==> verify: generated files"
	@hack/verify-generated.sh

.PHONY: vet
vet: ## go vet
	@echo "==> verify: go vet"
	@$(GO) vet -tags lab,long ./...
	@cd tools && $(GO) vet ./...
	@cd e2e/prometheus && $(GO) vet ./...

LINT := bin/tools/golangci-lint run --allow-serial-runners --concurrency 2 --show-stats=false

.PHONY: lint
lint: bin/tools/golangci-lint ## golangci-lint, and kube-api-linter on api/
	@echo "==> verify: lint"
	@$(LINT) ./...
	@$(LINT) --config .golangci-kal.yml ./api/...

.PHONY: test-lint-rules
test-lint-rules: bin/tools/golangci-lint ## The import law and the forbidden calls are really refused
	@echo "==> verify: lint rules"
	@hack/test-lint-rules.sh

.PHONY: licenses
licenses: bin/tools/licenses ## Licences of every module that is shipped
	@echo "==> verify: licences"
	@bin/tools/licenses . ./cmd/...

##@ Also

.PHONY: help
help: ## This list
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@ / { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z][a-z-]*:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
