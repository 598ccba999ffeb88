package mcp

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// Print writes the definitions of the tools that o asks for, for hosts that do
// not speak MCP: as "json" a list of functions as native function calls take them,
// as "xml" a description with an example of each. KindInvalid for names that are
// none.
func Print(w io.Writer, o Options, format string) error {
	tools, err := choose(o.Tools, o.ReadOnly)
	if err != nil {
		return err
	}
	if format == "xml" {
		return printXML(w, tools)
	}
	list := []function{}
	for _, t := range tools {
		f := function{Type: "function"}
		f.Function.Name, f.Function.Description, f.Function.Parameters = t.def.Name, t.def.Description, t.def.InputSchema
		list = append(list, f)
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(list)
}

// function is a tool as native function calls have it.
type function struct {
	Type     string `json:"type"`
	Function struct {
		Name        string `json:"name"`
		Description string `json:"description"`
		Parameters  any    `json:"parameters"`
	} `json:"function"`
}

// xmlTools, xmlTool and xmlParameter are the description in XML.
type (
	xmlTools struct {
		XMLName xml.Name  `xml:"tools"`
		Tools   []xmlTool `xml:"tool"`
	}
	xmlTool struct {
		Name        string         `xml:"name,attr"`
		Description string         `xml:"description"`
		Parameters  []xmlParameter `xml:"parameters>parameter"`
		Usage       string         `xml:"usage"`
	}
	xmlParameter struct {
		Name     string `xml:"name,attr"`
		Type     string `xml:"type,attr"`
		Required bool   `xml:"required,attr"`
		Values   string `xml:"values,attr,omitempty"`
		Text     string `xml:",chardata"`
	}
)

func printXML(w io.Writer, tools []tool) error {
	var out xmlTools
	for _, t := range tools {
		in, ok := t.def.InputSchema.(*jsonschema.Schema)
		if !ok {
			return fmt.Errorf("tool %s has no schema of ours", t.def.Name)
		}
		x := xmlTool{Name: t.def.Name, Description: t.def.Description}
		var usage strings.Builder
		fmt.Fprintf(&usage, "<%s>", t.def.Name)
		for _, name := range in.PropertyOrder {
			p := in.Properties[name]
			one := xmlParameter{Name: name, Type: typeOf(p), Required: slices.Contains(in.Required, name), Text: p.Description}
			for i, v := range p.Enum {
				if i > 0 {
					one.Values += " "
				}
				one.Values += fmt.Sprint(v)
			}
			x.Parameters = append(x.Parameters, one)
			if one.Required {
				fmt.Fprintf(&usage, "<%s>…</%s>", name, name)
			}
		}
		fmt.Fprintf(&usage, "</%s>", t.def.Name)
		x.Usage = usage.String()
		out.Tools = append(out.Tools, x)
	}
	b, err := xml.MarshalIndent(out, "", "  ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

// typeOf names the type of a parameter.
func typeOf(s *jsonschema.Schema) string {
	if s.Type == "" {
		return "any"
	}
	return s.Type
}
