package supervisor

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/escalate"
	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor/decide"
)

const namespace = "steward"

// Metrics counts what the loop does. Values of the last State are not counted but read at each scrape (see Serve), so that
// they cost an idle loop nothing. A nil *Metrics does nothing.
type Metrics struct {
	changes    *prometheus.CounterVec
	looks      prometheus.Histogram
	decisions  prometheus.Histogram
	latency    *prometheus.HistogramVec
	results    *prometheus.CounterVec
	gaps       *prometheus.HistogramVec
	deliveries *prometheus.CounterVec
	overflows  prometheus.Counter
	scrape     *scrape
}

// NewMetrics makes the metrics and registers them. It panics if reg has metrics of these names already.
func NewMetrics(reg prometheus.Registerer, version string) *Metrics {
	m := &Metrics{
		changes:   counter("changes_total", "Changes to project files that were carried out.", "verb", "reason"),
		looks:     prometheus.NewHistogram(histogram("look_seconds", "Time that one scan of one project took, its changes included.", 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 30)),
		decisions: prometheus.NewHistogram(histogram("decision_seconds", "Time that one decision took.", 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5)),
		latency: prometheus.NewHistogramVec(histogram("task_latency_seconds",
			"Time from a task's request to its result, for each result that task_results_total counts.",
			1, 5, 10, 20, 30, 45, 60, 120, 300, 600, 1800, 3600), []string{"protocol"}),
		results: counter("task_results_total", "Results of tasks. A failed task that comes right after all counts once in each outcome.", "protocol", "outcome"),
		gaps: prometheus.NewHistogramVec(histogram("heartbeat_gap_seconds", "Silence between two beats of an agent, in awake time.",
			1, 5, 10, 15, 20, 30, 45, 60, 90, 120, 300, 900, 1800), []string{"protocol"}),
		deliveries: counter("deliveries_total", "Attempts to reach the human.", "channel", "result"),
		overflows: prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: "watch_overflows_total",
			Help: "Times that a project was scanned as a whole because the kernel's queue of changes had overflowed."}),
		scrape: &scrape{version: version},
	}
	reg.MustRegister(m.changes, m.looks, m.decisions, m.latency, m.results, m.gaps, m.deliveries, m.overflows, m.scrape)
	return m
}

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
}

func histogram(name, help string, buckets ...float64) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets}
}

// Serve sets the sources of what is read at each scrape: the last State (nil before the first scan), the heads of the incidents,
// and the number of watched folders (nil: that metric is absent). It is called before the first scrape, they from its goroutine.
func (m *Metrics) Serve(picture func() *State, incidents func() map[string]rules.Head, watches func() int) {
	m.scrape.picture, m.scrape.incidents, m.scrape.watches = picture, incidents, watches
}

// Delivered counts an attempt to reach the user. A channel or result outside the known ones counts as "other".
func (m *Metrics) Delivered(channel, result string) {
	if m != nil {
		m.deliveries.WithLabelValues(among(channel, channels), among(result, deliveryResults)).Inc()
	}
}

// The closed label sets of deliveries. A channel may report success in any word; unknown words count as "other".
var (
	channels        = []string{escalate.ChannelDesktop, escalate.ChannelSpeech, escalate.ChannelNtfy, escalate.ChannelCommand, "none"}
	deliveryResults = []string{"shown", "spoken", "sent", "pushed", "taken", escalate.ResultDelivered, escalate.ResultFailed, escalate.ResultTimeout,
		escalate.ResultDropped, escalate.ResultWithdrawn, escalate.ResultStuck, escalate.ResultUnwanted}
)

func among(word string, set []string) string {
	if slices.Contains(set, word) {
		return word
	}
	return "other"
}

func (m *Metrics) look(took time.Duration) {
	if m != nil {
		m.looks.Observe(took.Seconds())
	}
}

func (m *Metrics) decision(took time.Duration) {
	if m != nil {
		m.decisions.Observe(took.Seconds())
	}
}

func (m *Metrics) overflow() {
	if m != nil {
		m.overflows.Inc()
	}
}

// change counts an applied change. A failed one changed nothing.
func (m *Metrics) change(c protocol.Change, err error) {
	if m != nil && err == nil {
		m.changes.WithLabelValues(string(c.Verb), string(c.Reason)).Inc()
	}
}

// observe counts the heartbeats and results that one decision noticed.
func (m *Metrics) observe(old, next decide.Memory) {
	if m == nil {
		return
	}
	for subject, turn := range next.Agents.Since(old.Agents) {
		a, before := turn.Is, 1 // the gap before the first heartbeat began before the first scan
		if turn.Was != nil {
			before = max(before, turn.Was.Beats)
		}
		if a.Beats > before {
			m.gaps.WithLabelValues(subject.Protocol).Observe(a.LastGap.Seconds())
		}
	}
	for subject, turn := range next.Tasks.Since(old.Tasks) {
		t := turn.Is
		if t.Counted == "" || turn.Was != nil && t.Counted == turn.Was.Counted {
			continue
		}
		m.results.WithLabelValues(subject.Protocol, t.Counted).Inc()
		if t.Latency > 0 { // the request may not state its creation time
			m.latency.WithLabelValues(subject.Protocol).Observe(t.Latency.Seconds())
		}
	}
}

// scrape collects what is true at the moment of a scrape.
type scrape struct {
	version   string
	picture   func() *State
	incidents func() map[string]rules.Head
	watches   func() int
}

// Describe announces nothing: the metrics are named where they are collected.
func (*scrape) Describe(chan<- *prometheus.Desc) {}

// gauge is one metric of a scrape; set adds a value to it.
type gauge struct {
	desc *prometheus.Desc
	ch   chan<- prometheus.Metric
}

func (g gauge) set(v float64, labels ...string) {
	g.ch <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, v, labels...)
}

// Collect reads the metrics.
func (g *scrape) Collect(ch chan<- prometheus.Metric) {
	metric := func(name, help string, labels ...string) gauge {
		return gauge{prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, labels, nil), ch}
	}
	metric("build_info", "The running version; always 1.", "version").set(1, g.version)
	if g.watches != nil {
		metric("watch_descriptors", "Folders that are watched for changes.").set(float64(g.watches()))
	}
	if g.incidents != nil {
		countIncidents(g.incidents(), metric("incidents", "Incidents on record.", "severity", "state"))
	}
	if g.picture == nil || g.picture() == nil {
		return
	}
	p := g.picture()
	load := metric("load_ratio", "Used share of a dimension of the machine; absent while it cannot be read.", "dimension")
	for _, dimension := range capacity.Dimensions() {
		if v, known := p.View.Load.Share(dimension).Value(); known {
			load.set(v, dimension)
		}
	}
	r := p.Report()
	countStates(p, agentStates, r.Agents, func(a AgentReport) (string, protocol.AgentState) { return a.Protocol, a.State },
		metric("agents", "Agents by state.", "protocol", "state"))
	countStates(p, taskStates, r.Tasks, func(t TaskReport) (string, protocol.TaskState) { return t.Protocol, t.State },
		metric("tasks", "Tasks that are open or ended lately, by state.", "protocol", "state"))
	countStates(p, lockStates, r.Locks, func(l LockReport) (string, protocol.LockState) { return l.Protocol, l.State },
		metric("locks", "Locks in files, by state.", "protocol", "state"))
	countReasons(r.Tasks, metric("task_reasons", "The same tasks by state and reason; absent at 0.", "protocol", "state", "reason"))
	shareBeats(p, metric("heartbeat_uptime_ratio", "Share of the watched time that heartbeats have covered; absent before any.", "protocol"))
	showMeasures(p, metric("protocol_measure", "What the protocols' documents ask to be measured; the measure's name ends in its unit.", "project", "protocol", "measure"))
	countFaults(p, metric("faults", `Files that cannot be used as they are; "all" counts projects that cannot be scanned.`, "protocol"))
}

func countReasons(tasks []TaskReport, byReason gauge) {
	reasons := map[[3]string]int{}
	for _, t := range tasks {
		reasons[[3]string{t.Protocol, string(t.State), string(t.Reason)}]++
	}
	for labels, n := range reasons {
		byReason.set(float64(n), labels[:]...)
	}
}

func shareBeats(p *State, uptime gauge) {
	covered, observed := map[string]time.Duration{}, map[string]time.Duration{}
	for subject, a := range p.Plan.Memory.Agents.All() {
		covered[subject.Protocol] += a.Covered
		observed[subject.Protocol] += a.Observed
	}
	for name, whole := range observed {
		if v := ratio(covered[name], whole); v != nil {
			uptime.set(*v, name)
		}
	}
}

func showMeasures(p *State, measure gauge) {
	for i := range p.View.Snapshots {
		s := &p.View.Snapshots[i]
		for _, m := range s.Measures {
			if m.Agent == "" { // the names of agents come from files
				measure.set(m.Value, s.Project, s.Protocol, m.Name)
			}
		}
	}
}

func countFaults(p *State, unusable gauge) {
	faults := map[string]int{"all": 0}
	for i := range p.View.Snapshots {
		faults[p.View.Snapshots[i].Protocol] += len(p.View.Snapshots[i].Faults)
	}
	for _, d := range p.Projects {
		if d.Problem != nil {
			faults["all"]++
		}
	}
	for name, n := range faults {
		unusable.set(float64(n), name)
	}
}

// The closed label sets of states.
var (
	taskStates  = []protocol.TaskState{protocol.TaskPending, protocol.TaskDeferred, protocol.TaskRunning, protocol.TaskWaiting, protocol.TaskDone, protocol.TaskFailed, protocol.TaskDead}
	agentStates = []protocol.AgentState{protocol.AgentStarting, protocol.AgentAlive, protocol.AgentLate, protocol.AgentDead, protocol.AgentHung, protocol.AgentPaused, protocol.AgentUnknown}
	lockStates  = []protocol.LockState{protocol.LockHeld, protocol.LockOverdue, protocol.LockStale}
)

// countStates counts by the Report, so that the metrics agree with the status page. Every state of a spoken protocol is
// present, also at 0: an alert rule must not see a series appear and vanish.
func countStates[S ~string, R any](p *State, states []S, list []R, of func(R) (string, S), g gauge) {
	counts := map[[2]string]int{}
	for i := range p.View.Snapshots {
		for _, s := range states {
			counts[[2]string{p.View.Snapshots[i].Protocol, string(s)}] = 0
		}
	}
	for _, r := range list {
		name, state := of(r)
		counts[[2]string{name, string(state)}]++
	}
	for labels, n := range counts {
		g.set(float64(n), labels[:]...)
	}
}

func countIncidents(heads map[string]rules.Head, g gauge) {
	counts := map[[2]string]int{}
	for _, h := range heads {
		counts[[2]string{string(h.Severity), string(h.State)}]++
	}
	for _, severity := range []protocol.Severity{protocol.Info, protocol.Low, protocol.Medium, protocol.High, protocol.Critical} {
		for _, state := range []rules.State{rules.Raised, rules.Acked, rules.Resolved} {
			g.set(float64(counts[[2]string{string(severity), string(state)}]), string(severity), string(state))
		}
	}
}
