// Package tests holds the end-to-end tests: whole migrations in the lab, judged by the watcher.
package tests
