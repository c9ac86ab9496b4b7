package runner

import (
	"context"
	"fmt"
	"os"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Files in a pod's folder.
const (
	kubeconfigFile   = "kubeconfig"
	apiToken         = "token"
	podIdentityToken = "eks-pod-identity-token"
)

const (
	// podIdentityAudience is whom the EKS webhook's token is for.
	podIdentityAudience = "pods.eks.amazonaws.com"
	// tokenLifetime is what a kubelet asks for, in seconds.
	tokenLifetime = 3600
)

// writeKubeconfig lets the pod's process in as its ServiceAccount. The token stays in a file of its own, which clients
// read again, so that it can be renewed.
func (w *worker) writeKubeconfig() error {
	config := clientcmdapi.NewConfig()
	config.Clusters["lab"] = &clientcmdapi.Cluster{Server: w.runner.config.APIServer, CertificateAuthorityData: w.runner.config.CAData}
	config.AuthInfos["pod"] = &clientcmdapi.AuthInfo{TokenFile: w.path(apiToken)}
	config.Contexts["lab"] = &clientcmdapi.Context{Cluster: "lab", AuthInfo: "pod", Namespace: w.pod.Namespace}
	config.CurrentContext = "lab"
	if err := clientcmd.WriteToFile(*config, w.path(kubeconfigFile)); err != nil {
		return fmt.Errorf("write the pod's kubeconfig: %w", err)
	}
	return nil
}

// writeTokens asks for fresh tokens and says how long they last.
func (w *worker) writeTokens(ctx context.Context) (time.Duration, error) {
	shortest := time.Duration(tokenLifetime) * time.Second
	for file, audiences := range map[string][]string{apiToken: nil, podIdentityToken: {podIdentityAudience}} {
		lifetime := int64(tokenLifetime)
		request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
			Audiences: audiences, ExpirationSeconds: &lifetime,
			BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: w.pod.Name, UID: w.pod.UID},
		}}
		account := w.pod.Spec.ServiceAccountName
		answer, err := w.runner.config.Client.CoreV1().ServiceAccounts(w.pod.Namespace).CreateToken(ctx, account, request, metav1.CreateOptions{})
		if err != nil {
			return 0, fmt.Errorf("get a token for ServiceAccount %s/%s: %w", w.pod.Namespace, account, err)
		}
		if err := replaceFile(w.path(file), answer.Status.Token); err != nil {
			return 0, err
		}
		if expiry := answer.Status.ExpirationTimestamp; !expiry.IsZero() {
			shortest = min(shortest, time.Until(expiry.Time))
		}
	}
	return shortest, nil
}

// replaceFile never shows a reader half a token.
func replaceFile(path, content string) error {
	if err := os.WriteFile(path+".new", []byte(content), 0o600); err != nil {
		return fmt.Errorf("write a token: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("write a token: %w", err)
	}
	return nil
}

// renewTokens replaces the tokens after four fifths of their life, as the kubelet does. An API server may give tokens
// a shorter life than was asked for.
func (w *worker) renewTokens(ctx context.Context, lifetime time.Duration) {
	for next := lifetime / 5 * 4; sleep(ctx, next); {
		lifetime, err := w.writeTokens(ctx)
		next = lifetime / 5 * 4
		if err != nil {
			w.runner.config.Log.Warn("retrying to renew tokens", "pod", w.key(), "error", err)
			next = 10 * retryInterval
		}
	}
}
