package page

import (
	"bytes"
	_ "embed"
	"html/template"

	"github.com/loopx-project/loopx-migrate/evidence"
)

var (
	//go:embed page.html.tmpl
	pageText string
	//go:embed page.css
	pageStyle string
)

// Render makes the page of a bundle's contents. It depends on them alone.
func Render(c evidence.Contents) ([]byte, error) {
	v, err := viewOf(c)
	if err != nil {
		return nil, err
	}
	t, err := template.New("page").Funcs(template.FuncMap{"ms": millis, "short": short, "bytes": byteText, "micros": micros, "count": grouped}).Parse(pageText)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = t.Execute(&out, v)
	return out.Bytes(), err
}
