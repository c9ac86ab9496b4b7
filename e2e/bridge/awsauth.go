package bridge

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// roleRow is what matters here of a row of aws-auth's mapRoles.
type roleRow struct {
	RoleARN string   `json:"rolearn"`
	Groups  []string `json:"groups"`
}

// withdraw plays EKS's part in aws-auth when it deletes the last managed node group of a role: the role's rows go, whoever
// wrote them. What fails is tried again with the next resync.
func (b *Bridge) withdraw(ctx context.Context, roleARN string) {
	b.mu.Lock()
	b.withdrawn[roleARN] = true
	b.mu.Unlock()
	if err := b.dropWithdrawn(ctx); err != nil {
		b.config.Log.Warn("a role stays in aws-auth for now", "role", roleARN, "error", err)
	}
}

func (b *Bridge) dropWithdrawn(ctx context.Context) error {
	b.mu.Lock()
	roles := slices.Sorted(maps.Keys(b.withdrawn))
	b.mu.Unlock()
	for _, role := range roles {
		if err := b.dropRole(ctx, role); err != nil {
			return fmt.Errorf("take role %s out of aws-auth: %w", role, err)
		}
		b.mu.Lock()
		delete(b.withdrawn, role)
		b.mu.Unlock()
	}
	return nil
}

func (b *Bridge) dropRole(ctx context.Context, roleARN string) error {
	configMaps := b.config.Client.CoreV1().ConfigMaps(metav1.NamespaceSystem)
	configMap, err := configMaps.Get(ctx, "aws-auth", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	left := withoutRole(configMap.Data["mapRoles"], roleARN)
	if left == configMap.Data["mapRoles"] {
		return nil
	}
	configMap.Data["mapRoles"] = left
	if _, err := configMaps.Update(ctx, configMap, metav1.UpdateOptions{FieldManager: "eks"}); err != nil {
		return err
	}
	b.config.Log.Info("EKS took a role out of aws-auth", "role", roleARN)
	return nil
}

// withoutRole leaves the other rows as they are written, so that a test can tell who else changed them. A list in brackets
// is left whole: nobody in the lab writes one.
func withoutRole(mapRoles, roleARN string) string {
	var kept, row strings.Builder
	indent := -1
	end := func() {
		var rows []roleRow
		if err := yaml.Unmarshal([]byte(row.String()), &rows); err != nil || !slices.ContainsFunc(rows, func(r roleRow) bool { return r.RoleARN == roleARN }) {
			kept.WriteString(row.String())
		}
		row.Reset()
	}
	for line := range strings.Lines(mapRoles) {
		body := strings.TrimLeft(line, " ")
		if begins := strings.HasPrefix(body, "- "); begins && (indent < 0 || len(line)-len(body) == indent) {
			indent = len(line) - len(body)
			end()
		}
		row.WriteString(line)
	}
	end()
	return kept.String()
}
