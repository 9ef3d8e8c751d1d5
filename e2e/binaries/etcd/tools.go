//go:build tools

// Package tools pins the etcd that the test cluster stores its state in.
package tools

import _ "go.etcd.io/etcd/server/v3"
