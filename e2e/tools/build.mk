# The lab's control plane, built from the Go module in e2e/tools (its replace lines keep it out of the product's go.mod).
# Included by the Makefile at the repository's root: targets are relative to it. The first build takes about five
# minutes on two cores; later ones are skipped until e2e/tools/go.mod or go.sum changes.
# Every binary is built under a temporary name and moved into place, so an interrupted build leaves no half-written file.

CONTROL_PLANE := bin/etcd bin/kube-apiserver bin/kube-controller-manager bin/kube-scheduler bin/kubectl bin/kwok

tool_version = $(shell awk '$$1 == "$(1)" && $$2 ~ /^v/ {print $$2; exit}' e2e/tools/go.mod)
KUBERNETES_VERSION := $(call tool_version,k8s.io/kubernetes)
KWOK_VERSION       := $(call tool_version,sigs.k8s.io/kwok)
KUBERNETES_MINOR   := $(word 2,$(subst ., ,$(KUBERNETES_VERSION)))

# Without these kubectl version, and every client that parses the server's version, fails.
# $(1): package that holds the version variables.
version_flags = -X $(1).gitVersion=$(KUBERNETES_VERSION) -X $(1).gitMajor=1 -X $(1).gitMinor=$(KUBERNETES_MINOR) \
	-X $(1).gitTreeState=clean -X $(1).gitCommit=0000000000000000000000000000000000000000 -X $(1).buildDate=1970-01-01T00:00:00Z
KUBERNETES_LDFLAGS := -s -w $(call version_flags,k8s.io/component-base/version) $(call version_flags,k8s.io/client-go/pkg/version)

# $(1): main package, $(2): linker flags.
define build_tool
@mkdir -p bin
@echo ">> building $@ (the control plane takes minutes the first time, then it is cached)"
@cd e2e/tools && CGO_ENABLED=0 go build -trimpath -ldflags "$(2)" -o ../../$@.tmp.$$$$ $(1) && mv ../../$@.tmp.$$$$ ../../$@ \
	|| { rm -f ../../$@.tmp.$$$$; exit 1; }
@touch $@
endef

TOOLS_MODULE := e2e/tools/go.mod e2e/tools/go.sum

.PHONY: control-plane
control-plane: $(CONTROL_PLANE) ## Build the lab's control plane into bin/

bin/etcd: $(TOOLS_MODULE)
	$(call build_tool,go.etcd.io/etcd/server/v3,-s -w)

bin/kube-apiserver bin/kube-controller-manager bin/kube-scheduler bin/kubectl: $(TOOLS_MODULE)
	$(call build_tool,k8s.io/kubernetes/cmd/$(notdir $@),$(KUBERNETES_LDFLAGS))

bin/kwok: $(TOOLS_MODULE)
	$(call build_tool,sigs.k8s.io/kwok/cmd/kwok,-s -w -X sigs.k8s.io/kwok/pkg/consts.Version=$(KWOK_VERSION))
