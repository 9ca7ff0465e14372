package envelope

import (
	"path"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
)

// refusalLasts is how long a security rejection without a reaction is reported.
const refusalLasts = 7 * day

// refusalFindings reports security rejections (protocol 004, Approval Status) without a reaction: no newer review of the
// project, no delivery since. If a deployment waits for the review, the gate reports that instead.
func (v *view) refusalFindings(list []*task) (found []protocol.Finding) {
	awaited := map[string]bool{} // reviews that decide an open deployment
	for _, t := range list {
		for _, m := range t.deployments() {
			if r, _ := approval(v.board, m, v.Now); r != nil {
				awaited[r.task] = true
			}
		}
	}
	for _, project := range sortedKeys(v.projects) {
		p := v.projects[project]
		r := p.last()
		if r == nil || r.void || r.word != verdictRejected && !r.blocking || awaited[r.task] {
			continue
		}
		if n := len(p.deliveries); n > 0 && p.deliveries[n-1].After(r.at) || !v.Wait(r.at.Add(refusalLasts)) {
			continue
		}
		f := finding("security_rejected", protocol.High, "%s", r.refusal())
		f.Subject, f.Path, f.Call, f.Settle = protocol.Subject{Kind: protocol.KindTask, ID: r.task}, r.file, true, "Taken care of"
		found = append(found, f)
	}
	return found
}

// unreviewedFindings reports valid approvals whose review was not asked to read files delivered since the previous
// approval (protocol 004, Security Review Flow). Lists of files are patterns and often short, so this is only a finding.
// See docs/decisions.md, "An approval counts although files_to_review misses delivered files".
func (v *view) unreviewedFindings() (found []protocol.Finding) {
	for _, project := range sortedKeys(v.projects) {
		if p := v.projects[project]; len(p.unreviewed) > 0 {
			r := p.last()
			f := finding("unreviewed", protocol.Medium, "%s", clean("it approves, and its files_to_review do not name what was delivered: "+
				strings.Join(p.unreviewed, ", "), maxText))
			f.Subject, f.Field, f.Path = protocol.Subject{Kind: protocol.KindTask, ID: r.task}, "files_to_review", r.file
			found = append(found, f)
		}
	}
	return found
}

// unreviewedFiles returns the files delivered between the previous approval and the last review, if that approves, which
// none of its files_to_review covers.
func unreviewedFiles(p *projectReviews) (files []string) {
	last := p.last()
	if last == nil || last.denies() {
		return nil
	}
	i := slices.IndexFunc(p.tasks, func(t *task) bool { return t.id == last.task })
	asked := p.tasks[i].assigned
	if asked == nil || len(asked.assignment.files) == 0 {
		return nil
	}
	since := time.Time{}
	for _, r := range p.reviews[:len(p.reviews)-1] {
		if !r.denies() {
			since = r.at
		}
	}
	for _, t := range p.tasks {
		for _, m := range t.messages {
			if m.kind != completes || m.output.verdict.word != "" || m.at.After(last.at) || !m.at.After(since) {
				continue
			}
			for _, file := range m.output.files {
				if !covers(asked.assignment.files, file) && !slices.Contains(files, file) && len(files) < maxItems {
					files = append(files, file)
				}
			}
		}
	}
	return files
}

// covers reports whether one of the patterns names the file: as its path or the end of its path, as a folder above it, or
// with * for any text.
func covers(patterns []string, file string) bool {
	file = path.Clean(file)
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		pattern = path.Clean(strings.TrimSpace(pattern))
		parts := strings.Split(pattern, "*")
		if len(parts) == 1 {
			return pattern == "." || file == pattern || strings.HasPrefix(file, pattern+"/") || strings.HasSuffix(file, "/"+pattern)
		}
		rest, ok := strings.CutPrefix(file, parts[0])
		for _, part := range parts[1:] {
			part = strings.TrimPrefix(part, "/")
			at := strings.Index(rest, part)
			if ok = ok && at >= 0; !ok {
				return false
			}
			rest = rest[at+len(part):]
		}
		end := parts[len(parts)-1]
		return ok && (end == "" || strings.HasSuffix(file, strings.TrimPrefix(end, "/")))
	})
}
