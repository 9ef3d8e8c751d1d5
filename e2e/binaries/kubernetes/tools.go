//go:build tools

// Package tools pins the Kubernetes programs that the tests run against. Nothing
// here is compiled into the product; the module exists so that go.sum fixes every
// byte of the control plane.
package tools

import (
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager"
	_ "k8s.io/kubernetes/cmd/kubectl"
)
