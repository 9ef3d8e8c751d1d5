//go:build tools

// Package tools pins the Helm that the chart is tested and rendered with. Nothing
// here is compiled into the product; the module exists so that go.sum fixes every
// byte of it.
package tools

import (
	_ "helm.sh/helm/v4/cmd/helm"
)
