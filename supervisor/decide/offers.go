package decide

import (
	"slices"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
)

// Offer is an option of an incident that orders changes which wait for a person's word. It holds for one occurrence of the
// incident: when other changes wait, the person must see them first.
type Offer struct {
	Key, Occurrence string
	Option          string
	Changes         []protocol.Change
}

// repairs are the changes that are offered where steward asks, with the severity of an incident that is about nothing else.
// Housekeeping of steward's own is left out.
var repairs = map[protocol.Verb]protocol.Severity{
	protocol.VerbRequeue: protocol.Medium, protocol.VerbConclude: protocol.Medium, protocol.VerbReap: protocol.High, protocol.VerbUnlock: protocol.Medium,
	protocol.VerbRetry: protocol.Medium, protocol.VerbCancel: protocol.Low, protocol.VerbBury: protocol.Low, protocol.VerbMark: protocol.Low, protocol.VerbFile: protocol.Low,
}

// IsRepair reports whether an option orders changes that wait.
func IsRepair(option string) bool { return option == OptionRepair || option == OptionEnd }

// optionOf is the option that orders a change. Changes that end processes have an option of their own, because it is dangerous.
func optionOf(c protocol.Change) string {
	if len(c.Processes) > 0 {
		return OptionEnd
	}
	return OptionRepair
}

// offerRepairs adds each change that waits for a person's word to the condition that it ends. Changes that end no condition
// get one condition for each verb and source. See docs/decisions.md, "A repair that waits for an answer is planned like any other".
func (p *planner) offerRepairs() {
	type choice struct {
		subject protocol.Subject
		option  string
	}
	offered := map[choice]bool{}
	for _, c := range p.plan.Waiting {
		s := p.snapshotOf(c.Subject)
		severity, ok := repairs[c.Verb]
		one := choice{c.Subject, optionOf(c)}
		if !ok || s == nil || !s.Asks() || offered[one] {
			continue
		}
		offered[one] = true
		at := p.conditionOf(s, c)
		if at < 0 {
			at = len(p.conditions)
			p.conditions = append(p.conditions, condition{Alert: rules.Alert{Kind: "repair", Code: string(c.Verb), Severity: severity,
				Subject: s.Subject(protocol.KindProject, s.Project), Notice: &rules.Notice{Phrase: protocol.PhraseRepairs}}})
		}
		n := p.conditions[at].Notice
		n.Repairs = append(n.Repairs, c)
	}
}

// conditionOf finds the condition that a change ends: the last one about its subject, else the death of the agent that has the
// task, else the one about waiting changes of its kind; -1 without such a condition.
func (p *planner) conditionOf(s *protocol.Snapshot, c protocol.Change) int {
	last := func(is func(*rules.Alert) bool) int {
		for i := len(p.conditions) - 1; i >= 0; i-- {
			if a := &p.conditions[i].Alert; a.Notice != nil && is(a) {
				return i
			}
		}
		return -1
	}
	if at := last(func(a *rules.Alert) bool { return a.Subject == c.Subject }); at >= 0 {
		return at
	}
	if at := last(func(a *rules.Alert) bool {
		return a.Kind == "agent_dead" && sourceOf(a.Subject) == sourceOf(c.Subject) && slices.Contains(a.Notice.List, c.Subject.ID)
	}); at >= 0 {
		return at
	}
	about := s.Subject(protocol.KindProject, s.Project)
	return last(func(a *rules.Alert) bool { return a.Kind == "repair" && a.Subject == about && a.Code == string(c.Verb) })
}

// offer adds the options that order an alert's repairs, and makes them part of its occurrence. A repair that is made or no
// longer needed does not make it another occurrence; a repair that was not offered before does.
func (p *planner) offer(a *rules.Alert) {
	standing := standing(p.env, a.Key, a.Subject, p.plan.Memory.Standing[a.Key].Since)
	var list []protocol.Change
	if a.Notice != nil {
		list = a.Notice.Repairs
	}
	if len(list)+len(standing.Offered) == 0 {
		return
	}
	var names []string
	for _, c := range list {
		names = append(names, string(c.Verb)+" "+c.Subject.String())
	}
	slices.Sort(names)
	if slices.ContainsFunc(names, func(name string) bool { return !slices.Contains(standing.Offered, name) }) {
		standing.Offered = names
	}
	p.plan.Memory.Standing[a.Key] = standing
	a.Occurrence += " " + rules.Key(standing.Offered...)
	a.Occurrence = a.Happening()
	if slices.ContainsFunc(list, func(c protocol.Change) bool { return c.Verb == protocol.VerbRequeue || c.Verb == protocol.VerbRetry }) {
		// The repair does the same as "run it again", and counts the attempt.
		a.Options = slices.DeleteFunc(slices.Clone(a.Options), func(o rules.Option) bool { return o.ID == OptionRetry })
	}
	for _, id := range [...]string{OptionEnd, OptionRepair} {
		o := Offer{Key: a.Key, Occurrence: a.Occurrence, Option: id}
		for _, c := range list {
			if optionOf(c) == id {
				o.Changes = append(o.Changes, c)
			}
		}
		if len(o.Changes) > 0 {
			a.Options = append([]rules.Option{{ID: id, Dangerous: id == OptionEnd}}, a.Options...)
			p.plan.Offers = append(p.plan.Offers, o)
		}
	}
}
