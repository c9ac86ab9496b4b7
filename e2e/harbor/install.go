package harbor

import (
	"context"
	"fmt"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	"k8s.io/cli-runtime/pkg/genericclioptions"
)

// installCastoff is `helm install castoff charts/castoff -n castoff-system --create-namespace`, on the home.
func installCastoff(ctx context.Context, kubeconfig, chartDir string) error {
	chart, err := loader.Load(chartDir)
	if err != nil {
		return fmt.Errorf("loading castoff's chart from %s: %w", chartDir, err)
	}
	cfg, err := helmConfig(kubeconfig)
	if err != nil {
		return err
	}
	install := action.NewInstall(cfg)
	install.ReleaseName, install.Namespace, install.CreateNamespace = "castoff", CastoffNamespace, true
	values := map[string]any{"nodeSelector": map[string]any{"eks.amazonaws.com/nodegroup": Home}}
	if _, err := install.RunWithContext(ctx, chart, values); err != nil {
		return fmt.Errorf("installing castoff's chart: %w", err)
	}
	return nil
}

// uninstallCastoff is `helm uninstall castoff -n castoff-system`.
func uninstallCastoff(kubeconfig string) error {
	cfg, err := helmConfig(kubeconfig)
	if err != nil {
		return err
	}
	if _, err := action.NewUninstall(cfg).Run("castoff"); err != nil {
		return fmt.Errorf("uninstalling castoff's chart: %w", err)
	}
	return nil
}

func helmConfig(kubeconfig string) (*action.Configuration, error) {
	flags := genericclioptions.NewConfigFlags(false)
	namespace := CastoffNamespace
	flags.KubeConfig, flags.Namespace = &kubeconfig, &namespace
	cfg := new(action.Configuration)
	if err := cfg.Init(flags, CastoffNamespace, "secret", func(string, ...any) {}); err != nil {
		return nil, fmt.Errorf("preparing Helm: %w", err)
	}
	return cfg, nil
}
