package web

import (
	"bytes"
	"html/template"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// writing renders what people and models write. Raw HTML is left out by goldmark unless it is told otherwise, and so are javascript: links.
var writing = goldmark.New(
	goldmark.WithExtensions(extension.GFM),
	goldmark.WithParserOptions(parser.WithASTTransformers(util.Prioritized(outside{}, 999))),
)

// outside sees to it that a link tells the other side nothing, and that a picture of another host is a link to it: the policy would not
// load it, and to load it would tell that host who reads.
type outside struct{}

func (outside) Transform(doc *ast.Document, reader text.Reader, _ parser.Context) {
	var pictures []*ast.Image
	_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Link:
			n.SetAttributeString("rel", []byte("noreferrer nofollow"))
		case *ast.AutoLink:
			n.SetAttributeString("rel", []byte("noreferrer nofollow"))
		case *ast.Image:
			pictures = append(pictures, n)
		}
		return ast.WalkContinue, nil
	})
	for _, picture := range pictures {
		link := ast.NewLink()
		link.Destination, link.Title = picture.Destination, picture.Title
		link.SetAttributeString("rel", []byte("noreferrer nofollow"))
		for child := picture.FirstChild(); child != nil; {
			next := child.NextSibling()
			link.AppendChild(link, child)
			child = next
		}
		if link.ChildCount() == 0 {
			link.AppendChild(link, ast.NewString(picture.Destination))
		}
		picture.Parent().ReplaceChild(picture.Parent(), picture, link)
	}
}

// markdown is safe by what goldmark leaves out, not by a filter behind it.
func markdown(source string) template.HTML {
	var out bytes.Buffer
	if err := writing.Convert([]byte(source), &out); err != nil {
		return template.HTML("<pre>" + template.HTMLEscapeString(source) + "</pre>") //nolint:gosec // escaped
	}
	return template.HTML(out.String()) //nolint:gosec // goldmark without raw HTML
}
