// Package steward holds the defaults of the configuration: config.toml lies beside this file, and embedding cannot reach upward.
package steward

import _ "embed"

// Defaults is the text of config.toml.
//
//go:embed config.toml
var Defaults string
