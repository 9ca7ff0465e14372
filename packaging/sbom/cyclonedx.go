package main

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
)

// The document's shapes, in the order and the words of the CycloneDX 1.6 JSON schema.
type document struct {
	Schema       string       `json:"$schema"`
	Format       string       `json:"bomFormat"`
	Spec         string       `json:"specVersion"`
	Serial       string       `json:"serialNumber"`
	Version      int          `json:"version"`
	Metadata     metadata     `json:"metadata"`
	Components   []component  `json:"components"`
	Dependencies []dependency `json:"dependencies"`
}

type metadata struct {
	Timestamp string    `json:"timestamp,omitempty"`
	Component component `json:"component"`
}

type component struct {
	Ref        string     `json:"bom-ref"`
	Type       string     `json:"type"`
	Name       string     `json:"name"`
	Version    string     `json:"version"`
	Scope      string     `json:"scope,omitempty"`
	Hashes     []hash     `json:"hashes,omitempty"`
	Licenses   []license  `json:"licenses,omitempty"`
	PURL       string     `json:"purl"`
	Properties []property `json:"properties,omitempty"`
}

type hash struct {
	Alg     string `json:"alg"`
	Content string `json:"content"`
}

type license struct {
	License    *licenseID `json:"license,omitempty"`
	Expression string     `json:"expression,omitempty"`
}

type licenseID struct {
	ID string `json:"id"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type dependency struct {
	Ref       string   `json:"ref"`
	DependsOn []string `json:"dependsOn,omitempty"`
}

// bill makes the document. seconds is SOURCE_DATE_EPOCH, "" leaves the time out: the same binary gives the same bill.
func bill(info *debug.BuildInfo, parts []part, release string, sum [sha256.Size]byte, seconds string) document {
	root := component{
		Type: "application", Name: info.Main.Path, Version: release,
		Hashes: []hash{{"SHA-256", hex.EncodeToString(sum[:])}}, Licenses: licensed("MIT"),
		PURL: purl(info.Main.Path, release),
	}
	root.Ref = root.PURL
	for _, s := range info.Settings {
		if s.Key == "GOOS" || s.Key == "GOARCH" || s.Key == "CGO_ENABLED" {
			root.Properties = append(root.Properties, property{"cdx:gomod:build:env:" + s.Key, s.Value})
		}
	}
	doc := document{
		Schema: "http://cyclonedx.org/schema/bom-1.6.schema.json", Format: "CycloneDX", Spec: "1.6",
		Serial: serial(sum), Version: 1, Metadata: metadata{Timestamp: timestamp(seconds), Component: root},
	}
	needs := dependency{Ref: root.Ref}
	for _, p := range parts {
		c := component{Type: "library", Name: p.path, Version: p.version, Scope: "required", Hashes: sumHash(p.sum),
			Licenses: licensed(p.license), PURL: purl(p.path, p.version)}
		c.Ref = c.PURL
		doc.Components = append(doc.Components, c)
		needs.DependsOn = append(needs.DependsOn, c.Ref)
	}
	doc.Dependencies = []dependency{needs}
	return doc
}

// purl is the package URL of a Go module.
func purl(path, version string) string {
	return "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
}

// sumHash gives go.sum's hash of a module in hexadecimal, as other tools for Go modules write it: it is the SHA-256
// of the list of the module's files with their hashes.
func sumHash(sum string) []hash {
	raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(sum, "h1:"))
	if err != nil || len(raw) != sha256.Size {
		return nil
	}
	return []hash{{"SHA-256", hex.EncodeToString(raw)}}
}

func licensed(name string) []license {
	switch {
	case name == "":
		return nil
	case strings.Contains(name, " AND "):
		return []license{{Expression: name}}
	}
	return []license{{License: &licenseID{name}}}
}

// serial makes a UUID of the binary's hash: version 8, for those of one's own making.
func serial(sum [sha256.Size]byte) string {
	u := sum[:16]
	u[6], u[8] = u[6]&0x0f|0x80, u[8]&0x3f|0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}

func timestamp(seconds string) string {
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return ""
	}
	return time.Unix(n, 0).UTC().Format(time.RFC3339)
}
