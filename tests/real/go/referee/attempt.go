package main

import (
	"context"
	"errors"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// attempt is one try to find a node for a pod, told in full.
type attempt struct {
	*cluster
	pod    *v1.Pod
	answer *Answer
}

func (a *attempt) run(ctx context.Context, preempt bool) {
	if a.gated(ctx) {
		return
	}
	state := framework.NewCycleState()
	fitError := a.schedule(ctx, state)
	if len(a.answer.Errors) > 0 || a.answer.Message == scheduler.ErrNoNodesAvailable.Error() {
		return
	}
	if fitError != nil {
		a.tellNodes(ctx)
		if preempt {
			a.preempt(ctx, state, fitError.Diagnosis.NodeToStatus)
		}
		return
	}
	a.answer.Schedulable = true
	a.tellNodes(ctx)
}

// gated tells whether a plugin keeps the pod out of the queue.
func (a *attempt) gated(ctx context.Context) bool {
	for _, plugin := range a.profile.PreEnqueuePlugins() {
		if status := plugin.PreEnqueue(ctx, a.pod); !status.IsSuccess() {
			a.answer.PreEnqueue = verdictOf(status, plugin.Name())
			a.answer.Message = status.Message()
			return true
		}
	}
	return false
}

// schedule lets the scheduler do all of it at once.
func (a *attempt) schedule(ctx context.Context, state fwk.CycleState) *framework.FitError {
	info, err := framework.NewPodInfo(a.pod)
	if err != nil {
		a.fail(err)
		return nil
	}
	queued := &framework.QueuedPodInfo{PodInfo: info}
	result, err := a.scheduler.SchedulePod(ctx, a.profile, state, queued)
	var unfit *framework.FitError
	switch {
	case err == nil:
		a.answer.Chosen = result.SuggestedHost
	case errors.As(err, &unfit):
		a.answer.Message = unfit.Error()
		return unfit
	case errors.Is(err, scheduler.ErrNoNodesAvailable):
		a.answer.Message = err.Error()
	default:
		a.fail(err)
	}
	return nil
}

// tellNodes goes the scheduler's way once more, in steps, and tells what each node comes to.
func (a *attempt) tellNodes(ctx context.Context) {
	nodes, err := a.snapshot.NodeInfos().List()
	if err != nil {
		a.fail(err)
		return
	}
	state := framework.NewCycleState()
	narrowed, status, plugins := a.profile.RunPreFilterPlugins(ctx, state, a.pod)
	if status.IsRejected() {
		a.answer.PreFilter = verdictOf(status, pluginOf(status, plugins))
		for _, node := range nodes {
			a.answer.Nodes = append(a.answer.Nodes, rejected(node.Node().Name, status))
		}
		return
	}
	if !status.IsSuccess() {
		a.fail(status.AsError())
		return
	}
	a.scoreNodes(ctx, state, a.filterNodes(ctx, state, nodes, narrowed, plugins))
}

func (a *attempt) filterNodes(
	ctx context.Context, state fwk.CycleState, nodes []fwk.NodeInfo,
	narrowed *fwk.PreFilterResult, plugins sets.Set[string],
) (feasible []fwk.NodeInfo) {
	for _, node := range nodes {
		name := node.Node().Name
		// The node that the pod is nominated to is tried first, whatever plugins narrow to.
		nominated := name == a.pod.Status.NominatedNodeName
		if !narrowed.AllNodes() && !narrowed.NodeNames.Has(name) && !nominated {
			words := "node(s) didn't satisfy plugin(s) [" + strings.Join(sets.List(plugins), " ") + "]"
			out := rejected(name, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, words))
			a.answer.Nodes = append(a.answer.Nodes, out)
			continue
		}
		status := a.profile.RunFilterPluginsWithNominatedPods(ctx, state, a.pod, node)
		switch {
		case status.IsSuccess():
			feasible = append(feasible, node)
		case status.IsRejected() || a.answer.Chosen != "" && a.answer.Chosen == a.pod.Status.NominatedNodeName:
			a.answer.Nodes = append(a.answer.Nodes, rejected(name, status))
		default:
			a.fail(status.AsError())
		}
	}
	return feasible
}

// scoreNodes scores the feasible nodes, even a single one.
func (a *attempt) scoreNodes(ctx context.Context, state fwk.CycleState, nodes []fwk.NodeInfo) {
	if len(nodes) == 0 {
		return
	}
	if status := a.profile.RunPreScorePlugins(ctx, state, a.pod, nodes); !status.IsSuccess() {
		a.fail(status.AsError())
		return
	}
	scores, status := a.profile.RunScorePlugins(ctx, state, a.pod, nodes)
	if !status.IsSuccess() {
		a.fail(status.AsError())
		return
	}
	best := int64(-1)
	for _, score := range scores {
		a.answer.Nodes = append(a.answer.Nodes, passed(score))
		if score.TotalScore > best {
			best, a.answer.Best = score.TotalScore, nil
		}
		if score.TotalScore == best {
			a.answer.Best = append(a.answer.Best, score.Name)
		}
	}
	sorted(a.answer.Best)
	if a.pod.Status.NominatedNodeName == a.answer.Chosen {
		a.answer.Best = []string{a.answer.Chosen}
	}
}

// fail notes an error. Of several nodes' errors the scheduler tells any.
func (a *attempt) fail(err error) {
	a.answer.Errors = append(a.answer.Errors, err.Error())
}

func pluginOf(status *fwk.Status, plugins sets.Set[string]) string {
	if status.Plugin() != "" {
		return status.Plugin()
	}
	return strings.Join(sets.List(plugins), ", ")
}
