//go:build tools

// Package tools pins the Kubernetes programs that the tests run against. Nothing
// here is compiled into the product; the module exists so that go.sum fixes every
// byte of the control plane and of the node. A test builds those that it starts.
package tools

import (
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager"
	_ "k8s.io/kubernetes/cmd/kube-proxy"
	_ "k8s.io/kubernetes/cmd/kube-scheduler"
	_ "k8s.io/kubernetes/cmd/kubectl"
	_ "k8s.io/kubernetes/cmd/kubelet"
)
