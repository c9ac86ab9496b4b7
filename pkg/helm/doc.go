// Package helm installs, observes and mends Helm releases: the built-in engine's, and castoff's own in the lab. It is the only
// importer of helm.sh/helm, and never waits inside Helm: Apply returns once the objects are written, and whoever needs them
// ready observes them. Releases are kept in Secrets of their namespace, as the helm command keeps them, so `helm list` shows them.
package helm
