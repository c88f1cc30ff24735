//go:build peer

// Package peer names the server that Go must build for comparison.
package peer

import _ "github.com/FerretDB/FerretDB/cmd/ferretdb"
