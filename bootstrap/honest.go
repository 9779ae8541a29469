//go:build !brokenimport

package bootstrap

import "github.com/loopx-project/loopx-migrate/authority"

// seen is the source as the copy sees it: as it is. The build tag brokenimport puts a
// copy in its place that errs on purpose, to see that a comparison finds it.
func seen(source authority.Auditor) authority.Auditor { return source }
