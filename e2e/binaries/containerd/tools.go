//go:build tools

// Package tools pins the container runtime of the tests' node. Nothing here is
// compiled into the product; the module exists so that go.sum fixes every byte.
package tools

import (
	_ "github.com/containerd/containerd/v2/cmd/containerd"
	_ "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2"
	_ "github.com/containerd/containerd/v2/cmd/ctr"
)
