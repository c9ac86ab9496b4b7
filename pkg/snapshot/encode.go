package snapshot

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

const (
	indexKey = "snapshot.yaml"
	groupKey = "nodegroup.yaml"
	gzipped  = ".gz"

	// compressAbove leaves room for the object's metadata: a Secret's data is limited to 1 MiB.
	compressAbove = 900 << 10
	// readLimit bounds what is unpacked; a group of a thousand nodes is under 4 MiB.
	readLimit = 64 << 20
)

// document is a node group as its Secret has it. The labels that all of its nodes have are most of the text, and said once.
type document struct {
	CommonLabels map[string]string `json:"commonLabels,omitempty"`
	inventory.GroupSnapshot
}

// fold moves the labels that all nodes have out of them.
func fold(g inventory.GroupSnapshot) document {
	if len(g.Nodes) < 2 {
		return document{GroupSnapshot: g}
	}
	common := maps.Clone(g.Nodes[0].Labels)
	for _, node := range g.Nodes[1:] {
		maps.DeleteFunc(common, func(key, value string) bool {
			other, ok := node.Labels[key]
			return !ok || other != value
		})
	}
	g.Nodes = slices.Clone(g.Nodes)
	for i := range g.Nodes {
		g.Nodes[i].Labels = maps.Clone(g.Nodes[i].Labels)
		maps.DeleteFunc(g.Nodes[i].Labels, func(key, _ string) bool {
			_, ok := common[key]
			return ok
		})
	}
	return document{CommonLabels: common, GroupSnapshot: g}
}

// unfold gives every node its labels back. It owns the document.
func (d document) unfold() inventory.GroupSnapshot {
	for i := range d.Nodes {
		labels := maps.Clone(d.CommonLabels)
		if labels == nil {
			continue
		}
		maps.Copy(labels, d.Nodes[i].Labels)
		d.Nodes[i].Labels = labels
	}
	return d.GroupSnapshot
}

// encode gives the YAML of a document and its digest. The digest is of what people read, packed or not.
func encode(document any) (text []byte, digest string, err error) {
	text, err = yaml.Marshal(document)
	if err != nil {
		return nil, "", fmt.Errorf("writing %T as YAML: %w", document, err)
	}
	return text, sum(text), nil
}

func sum(text []byte) string {
	digest := sha256.Sum256(text)
	return hex.EncodeToString(digest[:])
}

// store puts a text into a Secret's data, readable if it fits.
func store(key string, text []byte) (map[string][]byte, error) {
	if len(text) <= compressAbove {
		return map[string][]byte{key: text}, nil
	}
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed) // without a time in its header: the same text gives the same bytes
	if _, err := writer.Write(text); err != nil {
		return nil, fmt.Errorf("compressing %s: %w", key, err)
	}
	if err := writer.Close(); err != nil {
		return nil, fmt.Errorf("compressing %s: %w", key, err)
	}
	if packed.Len() > corev1.MaxSecretSize {
		return nil, fmt.Errorf("%s has %d bytes compressed and a Secret holds %d: split the node group", key, packed.Len(), corev1.MaxSecretSize)
	}
	return map[string][]byte{key + gzipped: packed.Bytes()}, nil
}

// text is what store put in.
func text(secret *corev1.Secret, key string) ([]byte, error) {
	if plain, ok := secret.Data[key]; ok {
		return plain, nil
	}
	packed, ok := secret.Data[key+gzipped]
	if !ok {
		return nil, errors.New("it has no key " + key)
	}
	reader, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("unpacking %s: %w", key, err)
	}
	plain, err := io.ReadAll(io.LimitReader(reader, readLimit))
	if err != nil {
		return nil, fmt.Errorf("unpacking %s: %w", key, err)
	}
	return plain, nil
}

// labelValue makes a label's value of a cluster's name, which may be longer, or end in a dash.
func labelValue(name string) string {
	const limit, digest = 63, 8
	trimmed := strings.TrimRight(name, "-_")
	if trimmed == name && len(name) <= limit {
		return name
	}
	trimmed = strings.TrimRight(trimmed[:min(len(trimmed), limit-digest-1)], "-_")
	return trimmed + "-" + sum([]byte(name))[:digest]
}
