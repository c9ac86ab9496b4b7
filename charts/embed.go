// Package charts holds castoff's two Helm charts. The engine's is embedded, so that the operator installs it without reaching
// any chart registry; the operator's own chart is for people and stays a plain folder, but for the definition of a Migration, by
// which a plan judges a file before anything is installed.
package charts

import (
	"embed"
	"io/fs"
)

//go:embed all:provisioner
var embedded embed.FS

//go:embed castoff/crds/castoff.sh_migrations.yaml
var migrationCRD []byte

// MigrationCRD is the CustomResourceDefinition of Migrations, as YAML.
func MigrationCRD() []byte { return migrationCRD }

// Provisioner is the chart of the built-in engine, rooted at its Chart.yaml.
func Provisioner() fs.FS {
	root, err := fs.Sub(embedded, "provisioner")
	if err != nil {
		return embedded // fs.Sub refuses malformed names only; loading this as a chart would say what is missing
	}
	return root
}
