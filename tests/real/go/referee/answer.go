package main

import (
	"slices"

	resourcev1 "k8s.io/api/resource/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// Answer is one line of output. Invalid says that a server would not have stored the objects.
type Answer struct {
	Pod         string      `json:"pod"`
	Schedulable bool        `json:"schedulable"`
	Message     string      `json:"message"`
	PreEnqueue  *Verdict    `json:"preEnqueue,omitempty"`
	PreFilter   *Verdict    `json:"preFilter"`
	Nodes       []Node      `json:"nodes"`
	Best        []string    `json:"best"`
	Chosen      string      `json:"chosen,omitempty"`
	Preemption  *Preemption `json:"preemption"`
	Errors      []string    `json:"errors,omitempty"`
	Invalid     string      `json:"invalid,omitempty"`
}

// Verdict is what a plugin says against a pod.
type Verdict struct {
	Plugin  string   `json:"plugin"`
	Code    string   `json:"code"`
	Reasons []string `json:"reasons"`
}

// Node is what became of one node. Scores are weighted. Allocations are by claim; Devices are all
// that become allocated, without those of which the pod gets a share.
type Node struct {
	Name     string           `json:"name"`
	Feasible bool             `json:"feasible"`
	Plugin   *string          `json:"plugin"`
	Code     string           `json:"code"`
	Reasons  []string         `json:"reasons"`
	Scores   map[string]int64 `json:"scores"`
	Total    *int64           `json:"total"`

	Allocations map[string]*resourcev1.AllocationResult `json:"allocations,omitempty"`
	Devices     []string                                `json:"devices,omitempty"`
}

// Preemption is what came of making room. Tied are the equally good nodes.
type Preemption struct {
	NominatedNode *string     `json:"nominatedNode"`
	Tied          []string    `json:"tied"`
	Candidates    []Candidate `json:"candidates"`
	Message       string      `json:"message"`
}

// Candidate is a node with the pods that would have to go.
type Candidate struct {
	Node          string   `json:"node"`
	Victims       []string `json:"victims"`
	PDBViolations int64    `json:"pdbViolations"`
}

func verdictOf(status *fwk.Status, plugin string) *Verdict {
	return &Verdict{Plugin: plugin, Code: status.Code().String(), Reasons: reasonsOf(status)}
}

func rejected(name string, status *fwk.Status) Node {
	node := Node{
		Name: name, Code: status.Code().String(), Reasons: reasonsOf(status),
		Scores: map[string]int64{},
	}
	if plugin := status.Plugin(); plugin != "" {
		node.Plugin = &plugin
	}
	return node
}

func passed(scores fwk.NodePluginScores) Node {
	node := Node{
		Name: scores.Name, Feasible: true, Code: fwk.Success.String(), Reasons: []string{},
		Scores: map[string]int64{}, Total: &scores.TotalScore,
	}
	for _, score := range scores.Scores {
		node.Scores[score.Name] = score.Score
	}
	return node
}

func reasonsOf(status *fwk.Status) []string {
	return append([]string{}, status.Reasons()...)
}

func sorted(names []string) []string {
	slices.Sort(names)
	return names
}
