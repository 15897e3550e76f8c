//go:build tools

// Package tools names the program that this module exists to build.
package tools

import _ "sigs.k8s.io/dra-example-driver/cmd/dra-example-kubeletplugin"
