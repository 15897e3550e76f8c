//go:build tools

// Package tools names the program that this module exists to build.
package tools

import _ "github.com/koordinator-sh/koordinator/cmd/koord-scheduler"
