package supervisor

import (
	"slices"
	"sync"
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
	gauges     *scrape
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
		gauges: newScrape(version),
	}
	reg.MustRegister(m.changes, m.looks, m.decisions, m.latency, m.results, m.gaps, m.deliveries, m.overflows, m.gauges)
	return m
}

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
}

func histogram(name, help string, buckets ...float64) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets}
}

// Serve sets the sources of the gauges for each scrape: the last State (nil before the first scan) and the heads of the
// incidents. Both are called from the goroutine of the scrape.
func (m *Metrics) Serve(picture func() *State, incidents func() map[string]rules.Head) {
	if m == nil {
		return
	}
	m.gauges.mu.Lock()
	defer m.gauges.mu.Unlock()
	m.gauges.picture, m.gauges.incidents = picture, incidents
}

// Watches sets the source of the number of watched folders; without it the metric is absent.
func (m *Metrics) Watches(n func() int) {
	if m == nil {
		return
	}
	m.gauges.mu.Lock()
	defer m.gauges.mu.Unlock()
	m.gauges.watches = n
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
	version string

	mu        sync.Mutex
	picture   func() *State
	incidents func() map[string]rules.Head
	watches   func() int

	load, agents, tasks, reasons, locks, incident, uptime, faults, measure, watch, build *prometheus.Desc
}

func newScrape(version string) *scrape {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, labels, nil)
	}
	return &scrape{version: version,
		load:     desc("load_ratio", "Used share of a dimension of the machine; absent while it cannot be read.", "dimension"),
		agents:   desc("agents", "Agents by state.", "protocol", "state"),
		tasks:    desc("tasks", "Tasks that are open or ended lately, by state.", "protocol", "state"),
		reasons:  desc("task_reasons", "The same tasks by state and reason; absent at 0.", "protocol", "state", "reason"),
		locks:    desc("locks", "Locks in files, by state.", "protocol", "state"),
		incident: desc("incidents", "Incidents on record.", "severity", "state"),
		uptime:   desc("heartbeat_uptime_ratio", "Share of the watched time that heartbeats have covered; absent before any.", "protocol"),
		faults:   desc("faults", `Files that cannot be used as they are; "all" counts projects that cannot be scanned.`, "protocol"),
		measure:  desc("protocol_measure", "What the protocols' documents ask to be measured; the measure's name ends in its unit.", "project", "protocol", "measure"),
		watch:    desc("watch_descriptors", "Folders that are watched for changes."),
		build:    desc("build_info", "The running version; always 1.", "version"),
	}
}

// Describe lists every metric that Collect can give.
func (g *scrape) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{g.load, g.agents, g.tasks, g.reasons, g.locks, g.incident, g.uptime, g.faults, g.measure, g.watch, g.build} {
		ch <- d
	}
}

// Collect reads the gauges.
func (g *scrape) Collect(ch chan<- prometheus.Metric) {
	put := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	g.mu.Lock()
	picture, incidents, watches := g.picture, g.incidents, g.watches
	g.mu.Unlock()
	put(g.build, 1, g.version)
	if watches != nil {
		put(g.watch, float64(watches()))
	}
	if incidents != nil {
		g.putIncidents(put, incidents())
	}
	if picture == nil {
		return
	}
	if p := picture(); p != nil {
		g.putLoad(put, p)
		g.putStates(put, p)
		g.putUptime(put, p)
		g.putFaults(put, p)
		g.putMeasures(put, p)
	}
}

// put adds one value to the scrape.
type put func(d *prometheus.Desc, v float64, labels ...string)

func (g *scrape) putLoad(put put, p *State) {
	for _, dimension := range capacity.Dimensions() {
		if v, known := p.View.Load.Share(dimension).Value(); known {
			put(g.load, v, dimension)
		}
	}
}

// putStates counts by the Report, so that the metrics agree with the status page. Every state of a spoken protocol is
// present, also at 0: an alert rule must not see a series appear and vanish.
func (g *scrape) putStates(put put, p *State) {
	r, counts, reasons := p.Report(), map[[3]string]int{}, map[[3]string]int{}
	for _, a := range r.Agents {
		counts[[3]string{"agent", a.Protocol, string(a.State)}]++
	}
	for _, t := range r.Tasks {
		counts[[3]string{"task", t.Protocol, string(t.State)}]++
		reasons[[3]string{t.Protocol, string(t.State), string(t.Reason)}]++
	}
	for labels, n := range reasons {
		put(g.reasons, float64(n), labels[:]...)
	}
	for _, l := range r.Locks {
		counts[[3]string{"lock", l.Protocol, string(l.State)}]++
	}
	for _, name := range protocolsIn(p) {
		for _, s := range agentStates {
			put(g.agents, float64(counts[[3]string{"agent", name, string(s)}]), name, string(s))
		}
		for _, s := range taskStates {
			put(g.tasks, float64(counts[[3]string{"task", name, string(s)}]), name, string(s))
		}
		for _, s := range []protocol.LockState{protocol.LockHeld, protocol.LockOverdue, protocol.LockStale} {
			put(g.locks, float64(counts[[3]string{"lock", name, string(s)}]), name, string(s))
		}
	}
}

// protocolsIn lists the spoken protocols, each once.
func protocolsIn(p *State) []string {
	var names []string
	for i := range p.View.Snapshots {
		names = append(names, p.View.Snapshots[i].Protocol)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (g *scrape) putIncidents(put put, heads map[string]rules.Head) {
	counts := map[[2]string]int{}
	for _, h := range heads {
		counts[[2]string{string(h.Severity), string(h.State)}]++
	}
	for _, severity := range []protocol.Severity{protocol.Info, protocol.Low, protocol.Medium, protocol.High, protocol.Critical} {
		for _, state := range []rules.State{rules.Raised, rules.Acked, rules.Resolved} {
			put(g.incident, float64(counts[[2]string{string(severity), string(state)}]), string(severity), string(state))
		}
	}
}

func (g *scrape) putUptime(put put, p *State) {
	covered, observed := map[string]time.Duration{}, map[string]time.Duration{}
	for subject, a := range p.Plan.Memory.Agents.All() {
		covered[subject.Protocol] += a.Covered
		observed[subject.Protocol] += a.Observed
	}
	for name, whole := range observed {
		if v := durations(covered[name], whole); v != nil {
			put(g.uptime, *v, name)
		}
	}
}

// putMeasures leaves out measures of single agents: their names come from files.
func (g *scrape) putMeasures(put put, p *State) {
	for i := range p.View.Snapshots {
		s := &p.View.Snapshots[i]
		for _, m := range s.Measures {
			if m.Agent == "" {
				put(g.measure, m.Value, s.Project, s.Protocol, m.Name)
			}
		}
	}
}

func (g *scrape) putFaults(put put, p *State) {
	counts := map[string]int{"all": 0}
	for i := range p.View.Snapshots {
		counts[p.View.Snapshots[i].Protocol] += len(p.View.Snapshots[i].Faults)
	}
	for _, d := range p.Projects {
		if d.Problem != nil {
			counts["all"]++
		}
	}
	for name, n := range counts {
		put(g.faults, float64(n), name)
	}
}
