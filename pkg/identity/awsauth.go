package identity

import (
	"context"
	"fmt"
	"strings"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/inventory/awsapi"
	"github.com/castoff-sh/castoff/pkg/inventory/kubeapi"
)

// ConfigMapAPI is what the port calls of the API server, in namespace kube-system and live: client-go's
// CoreV1().ConfigMaps("kube-system") is one. It is called for aws-auth alone.
type ConfigMapAPI interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (*corev1.ConfigMap, error)
	Update(ctx context.Context, configMap *corev1.ConfigMap, opts metav1.UpdateOptions) (*corev1.ConfigMap, error)
}

// The ConfigMap by which a cluster lets IAM roles in, beside access entries or, in mode CONFIG_MAP, instead of them.
const (
	awsAuthName  = "aws-auth"
	awsAuthRoles = "mapRoles"
	awsAuth      = "ConfigMap kube-system/" + awsAuthName
	// awsAuthRight says where castoff's right to it comes from.
	awsAuthRight = " (chart value awsAuth.write)"
)

// rowARN is the role's ARN as aws-auth knows it: without a path (EKS user guide).
func rowARN(roleARN string) string {
	before, role, ok := strings.Cut(roleARN, ":role/")
	if !ok {
		return roleARN
	}
	return before + ":role/" + awsapi.LastSegment(role)
}

// readAwsAuth gives nil without an error if castoff may not read it: the chart gives both rights or none.
func (c *Client) readAwsAuth(ctx context.Context) (*corev1.ConfigMap, error) {
	if c.configMaps == nil {
		return nil, nil
	}
	have, err := c.configMaps.Get(ctx, awsAuthName, metav1.GetOptions{})
	switch {
	case apierrors.IsForbidden(err):
		return nil, nil
	case apierrors.IsNotFound(err):
		return nil, err
	case err != nil:
		return nil, kubeapi.Wrap(err, "get", "configmaps", "kube-system/"+awsAuthName)
	}
	return have, nil
}

// lookAtRow compares what lets nodes of the role join a cluster that knows aws-auth alone. ours says that the role is
// castoff's: so is its row, then.
func (c *Client) lookAtRow(ctx context.Context, cluster inventory.Cluster, roleARN string, ours bool) (findings, error) {
	var f findings
	roleARN = rowARN(roleARN)
	have, err := c.readAwsAuth(ctx)
	switch {
	case apierrors.IsNotFound(err):
		f.conflict("%s does not exist, and it alone lets nodes join EKS cluster %s: create it, empty, or set the cluster's authentication mode to API_AND_CONFIG_MAP", awsAuth, cluster.Name)
		return f, nil
	case err != nil:
		return f, err
	case have == nil:
		f.conflict("EKS cluster %s lets nodes join by %s alone, which castoff may not edit: set the chart's value awsAuth.write to true; "+
			"or set the cluster's authentication mode to API_AND_CONFIG_MAP (aws-auth stays in force). The row that castoff would add to mapRoles: %s",
			cluster.Name, awsAuth, flowRow(newRow(roleARN)))
		return f, nil
	}
	roles, err := parseRoles(have.Data[awsAuthRoles])
	if err != nil {
		f.conflict("%s: mapRoles cannot be read, and castoff does not write over it: mend it (kubectl -n kube-system edit configmap aws-auth): %v", awsAuth, err)
		return f, nil
	}
	i := roles.find(roleARN)
	switch {
	case i < 0:
		c.missRow(&f, have, roles, roleARN)
	case !roles.rows[i].letsNodesIn():
		f.conflict("%s has a row for role %s with which its nodes cannot join (username %q, groups %v): make it %s",
			awsAuth, roleARN, roles.rows[i].text("username"), roles.rows[i].groups(), flowRow(newRow(roleARN)))
	case ours && roles.rows[i].asWritten():
		f.own(rowName(roleARN), c.rowRemoval(have, roles, roleARN, i))
	}
	return f, nil
}

// leftRow finds the row that castoff wrote before its user let the cluster know access entries, which took its place. It is
// looked for when castoff goes, and not before: where there are access entries, the chart usually gives no right to look.
func (c *Client) leftRow(ctx context.Context, cluster inventory.Cluster, roleARN string) (findings, error) {
	var f findings
	if cluster.AuthenticationMode != string(ekstypes.AuthenticationModeApiAndConfigMap) {
		return f, nil
	}
	have, err := c.readAwsAuth(ctx)
	if apierrors.IsNotFound(err) || err == nil && have == nil {
		return f, nil
	}
	if err != nil {
		return f, err
	}
	roles, err := parseRoles(have.Data[awsAuthRoles])
	if err != nil {
		return f, nil // nothing of the migration depends on it
	}
	if i := roles.find(rowARN(roleARN)); i >= 0 && roles.rows[i].asWritten() {
		f.own(rowName(rowARN(roleARN)), c.rowRemoval(have, roles, rowARN(roleARN), i))
	}
	return f, nil
}

func rowName(roleARN string) string { return "row of " + roleARN + " in " + awsAuth }

// missRow says at once if the row could not be added: in the middle of a migration it would be too late.
func (c *Client) missRow(f *findings, have *corev1.ConfigMap, roles rolesMap, roleARN string) {
	edited, err := roles.with(roleARN)
	if err != nil {
		f.conflict("%s: mapRoles: %v: add the row yourself: %s", awsAuth, err, flowRow(newRow(roleARN)))
		return
	}
	f.miss(rowName(roleARN), func(ctx context.Context) error { return c.writeRoles(ctx, have, edited) })
}

func (c *Client) rowRemoval(have *corev1.ConfigMap, roles rolesMap, roleARN string, i int) func(context.Context) error {
	return func(ctx context.Context) error {
		edited, err := roles.without(i)
		if err != nil {
			return inventory.Terminal(fmt.Errorf("%s: mapRoles: %w: take the row of %s out yourself", awsAuth, err, roleARN))
		}
		return c.writeRoles(ctx, have, edited)
	}
}

// writeRoles carries the version that was read: who wrote meanwhile wins, and castoff looks again.
func (c *Client) writeRoles(ctx context.Context, have *corev1.ConfigMap, text string) error {
	edited := have.DeepCopy()
	if edited.Data == nil {
		edited.Data = map[string]string{}
	}
	edited.Data[awsAuthRoles] = text
	_, err := c.configMaps.Update(ctx, edited, metav1.UpdateOptions{FieldManager: "castoff"})
	return kubeapi.Wrap(err, "update", "configmaps", "kube-system/"+awsAuthName, awsAuthRight)
}
