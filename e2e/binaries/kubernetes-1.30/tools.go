//go:build tools

// Package tools pins the programs of the oldest Kubernetes that hns supports. Those of the newest, and what else is
// said of both, are in the directory beside this one.
package tools

import (
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager"
	_ "k8s.io/kubernetes/cmd/kubectl"
)
