package main

import (
	"context"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
)

// draws is how often the scheduler is asked which of the candidates is best. Among equals it takes
// any; after this many draws each of them has come up.
const draws = 200

// preempt tells whom the scheduler would evict, where, and what it says about it.
func (a *attempt) preempt(ctx context.Context, state fwk.CycleState, nodes fwk.NodeToStatusReader) {
	told := &Preemption{Tied: []string{}, Candidates: []Candidate{}}
	a.answer.Preemption = told
	a.dryRun(ctx, nodes, told)
	result, status := a.profile.RunPostFilterPlugins(ctx, state, a.pod, nodes)
	told.Message = status.Message()
	if status.IsSuccess() && result != nil && result.NominatedNodeName != "" {
		told.NominatedNode = &result.NominatedNodeName
	}
}

func (a *attempt) dryRun(ctx context.Context, nodes fwk.NodeToStatusReader, told *Preemption) {
	// In a state of its own: clones share what plugins remember of the nodes they have seen.
	state := framework.NewCycleState()
	a.profile.RunPreFilterPlugins(ctx, state, a.pod)
	plugin := a.preemptor()
	name := a.pod.Status.NominatedNodeName
	if able, _ := plugin.PodEligibleToPreemptOthers(ctx, a.pod, nodes.Get(name)); !able {
		return
	}
	possible, err := nodes.NodesForStatusCode(a.snapshot.NodeInfos(), fwk.Unschedulable)
	if err != nil || len(possible) == 0 {
		return
	}
	budgets, err := plugin.Evaluator.PdbLister.List(labels.Everything())
	if err != nil {
		a.fail(err)
		return
	}
	found, _, _ := plugin.Evaluator.DryRunPreemption(
		ctx, state, a.pod, possible, budgets, 0, int32(len(possible)))
	for _, candidate := range found {
		told.Candidates = append(told.Candidates, candidateOf(candidate))
	}
	if len(found) == 0 {
		return
	}
	tied := sets.New[string]()
	for range draws {
		tied.Insert(plugin.Evaluator.SelectCandidate(ctx, found).Name())
	}
	told.Tied = sets.List(tied)
}

func candidateOf(found preemption.Candidate) Candidate {
	made := Candidate{
		Node: found.Name(), PDBViolations: found.Victims().NumPDBViolations, Victims: []string{},
	}
	for _, pod := range found.Victims().Pods {
		made.Victims = append(made.Victims, pod.Namespace+"/"+pod.Name)
	}
	sorted(made.Victims)
	return made
}

func (a *attempt) preemptor() *defaultpreemption.DefaultPreemption {
	for _, plugin := range a.profile.PreEnqueuePlugins() {
		if found, ok := plugin.(*defaultpreemption.DefaultPreemption); ok {
			return found
		}
	}
	panic("the default profile has no DefaultPreemption")
}
