package runner

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// writeVolumes makes a folder for each volume, filled where it is a ConfigMap or a Secret.
func (w *worker) writeVolumes(ctx context.Context) error {
	for _, volume := range w.pod.Spec.Volumes {
		var files map[string]string
		var items []corev1.KeyToPath
		var err error
		switch {
		case volume.ConfigMap != nil:
			items = volume.ConfigMap.Items
			files, err = w.configMap(ctx, volume.ConfigMap.Name, volume.ConfigMap.Optional)
		case volume.Secret != nil:
			items = volume.Secret.Items
			files, err = w.secret(ctx, volume.Secret.SecretName, volume.Secret.Optional)
		}
		if err != nil {
			return fmt.Errorf("volume %s: %w", volume.Name, err)
		}
		if err := writeFiles(w.volumePath(volume.Name), project(files, items)); err != nil {
			return fmt.Errorf("volume %s: %w", volume.Name, err)
		}
	}
	return nil
}

// project picks and renames keys; no items mean all.
func project(files map[string]string, items []corev1.KeyToPath) map[string]string {
	if len(items) == 0 {
		return files
	}
	projected := map[string]string{}
	for _, item := range items {
		if content, found := files[item.Key]; found {
			projected[item.Path] = content
		}
	}
	return projected
}

func writeFiles(dir string, files map[string]string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make its folder: %w", err)
	}
	for name, content := range files {
		if !filepath.IsLocal(name) {
			return fmt.Errorf("file name %q leads out of the volume", name)
		}
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return fmt.Errorf("make folder of %s: %w", name, err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	return nil
}

func (w *worker) volumePath(name string) string { return filepath.Join(w.dir, "volumes", name) }

func (w *worker) path(name string) string { return filepath.Join(w.dir, name) }

// mountRewriter replaces the container's mount paths in arguments and variables by the folders that stand for them:
// there is no file system of the container's own to mount them into.
func (c *container) mountRewriter() func(string) string {
	folders := map[string]string{}
	for _, m := range c.spec.VolumeMounts {
		if path := strings.TrimSuffix(m.MountPath, "/"); path != "" {
			folders[path] = filepath.Join(c.worker.volumePath(m.Name), m.SubPath)
		}
	}
	if len(folders) == 0 {
		return func(value string) string { return value }
	}
	var quoted []string
	for _, path := range slices.Backward(slices.Sorted(maps.Keys(folders))) { // the longer of two that begin alike first
		quoted = append(quoted, regexp.QuoteMeta(path))
	}
	pattern := regexp.MustCompile(`(?:^|[=,: ])(` + strings.Join(quoted, "|") + `)`)
	return func(value string) string {
		var out strings.Builder
		from := 0
		for _, match := range pattern.FindAllStringSubmatchIndex(value, -1) {
			begin, end := match[2], match[3]
			if end < len(value) && !strings.ContainsRune("/,: ", rune(value[end])) {
				continue // a longer name that only begins like a mount path
			}
			out.WriteString(value[from:begin] + folders[value[begin:end]])
			from = end
		}
		return out.String() + value[from:]
	}
}
