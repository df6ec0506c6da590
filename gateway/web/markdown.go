package web

import (
	"bytes"
	"html/template"
	"slices"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"

	"gatewayd/internal/mutation"
)

const (
	// maxMarkdown bounds what is read as markdown, in bytes; a longer answer is shown as the text that it is.
	maxMarkdown = 256 << 10
	// headingStep keeps an answer's headings below those of the page.
	headingStep = 2
)

// reader reads markdown as models write it. It knows no HTML: what looks like a tag is text, so nothing that a model says, or was
// made to say, becomes a part of the page, and nothing of it is lost either.
var reader = goldmark.New(
	goldmark.WithParser(parser.NewParser(
		parser.WithBlockParsers(without(parser.DefaultBlockParsers(), parser.NewHTMLBlockParser())...),
		parser.WithInlineParsers(without(parser.DefaultInlineParsers(), parser.NewRawHTMLParser())...),
		parser.WithParagraphTransformers(parser.DefaultParagraphTransformers()...),
		parser.WithASTTransformers(util.Prioritized(tamed{}, 1_000)),
	)),
	goldmark.WithExtensions(extension.GFM),
	goldmark.WithRendererOptions(html.WithHardWraps(), renderer.WithNodeRenderers(util.Prioritized(codeBlocks{}, 100))),
)

func without(all []util.PrioritizedValue, one any) []util.PrioritizedValue {
	return slices.DeleteFunc(all, func(v util.PrioritizedValue) bool { return v.Value == one })
}

// markdown gives an answer as HTML that is safe to put into the page.
func markdown(answer string) template.HTML {
	if mutation.On("answer-is-html") {
		return template.HTML(answer) //nolint:gosec // the mutation
	}
	var out bytes.Buffer
	if len(answer) > maxMarkdown || reader.Convert([]byte(answer), &out) != nil {
		return template.HTML(`<pre tabindex="0">` + template.HTMLEscapeString(answer) + `</pre>`) //nolint:gosec // escaped
	}
	return template.HTML(out.String()) //nolint:gosec // the reader knows no HTML, and escapes all text
}

// tamed changes what a document would do to the page: its headings go below ours, its links tell nobody where they were followed
// from, and its pictures are links, because a picture that is fetched tells its server who reads.
type tamed struct{}

func (tamed) Transform(doc *ast.Document, _ text.Reader, _ parser.Context) {
	var pictures []*ast.Image
	_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Heading:
			n.Level = min(n.Level+headingStep, 6)
		case *ast.Link, *ast.AutoLink:
			foreign(n)
		case *ast.Image:
			pictures = append(pictures, n)
		}
		return ast.WalkContinue, nil
	})
	for _, picture := range pictures {
		link := ast.NewLink()
		link.Destination, link.Title = picture.Destination, picture.Title
		for child := picture.FirstChild(); child != nil; child = picture.FirstChild() {
			link.AppendChild(link, child)
		}
		if !link.HasChildren() {
			link.AppendChild(link, ast.NewString(picture.Destination))
		}
		foreign(link)
		picture.Parent().ReplaceChild(picture.Parent(), picture, link)
	}
}

func foreign(n ast.Node) {
	n.SetAttributeString("rel", []byte("noreferrer nofollow"))
	n.SetAttributeString("target", []byte("_blank"))
}

// codeBlocks writes code so that it scrolls inside its block, by the keyboard too, and says its language.
type codeBlocks struct{}

func (codeBlocks) RegisterFuncs(reg renderer.NodeRendererFuncRegisterer) {
	reg.Register(ast.KindFencedCodeBlock, codeBlock)
	reg.Register(ast.KindCodeBlock, codeBlock)
}

func codeBlock(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		_, err := w.WriteString("</code></pre></figure>\n")
		return ast.WalkContinue, err
	}
	_, _ = w.WriteString(`<figure class="code">`)
	if fenced, ok := n.(*ast.FencedCodeBlock); ok && len(fenced.Language(source)) > 0 {
		_, _ = w.WriteString(`<figcaption>` + template.HTMLEscapeString(string(fenced.Language(source))) + `</figcaption>`)
	}
	_, _ = w.WriteString(`<pre tabindex="0"><code>`)
	for i := range n.Lines().Len() {
		line := n.Lines().At(i)
		template.HTMLEscape(w, line.Value(source))
	}
	return ast.WalkContinue, nil
}
