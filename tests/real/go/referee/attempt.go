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
	unfit, err := a.schedule(ctx, state)
	switch {
	case errors.Is(err, scheduler.ErrNoNodesAvailable):
		a.answer.Message = err.Error()
	case err != nil:
		a.fail(err)
		a.tellNodes(ctx, nil) // other nodes may fail with other words
	case unfit != nil:
		a.answer.Message = unfit.Error()
		a.tellNodes(ctx, unfit)
		if preempt {
			a.preempt(ctx, state, unfit.Diagnosis.NodeToStatus)
		}
	default:
		a.answer.Schedulable = true
		a.tellNodes(ctx, nil)
	}
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
func (a *attempt) schedule(ctx context.Context, state fwk.CycleState) (*framework.FitError, error) {
	info, err := framework.NewPodInfo(a.pod)
	if err != nil {
		return nil, err
	}
	queued := &framework.QueuedPodInfo{PodInfo: info}
	result, err := a.scheduler.SchedulePod(ctx, a.profile, state, queued)
	var unfit *framework.FitError
	if errors.As(err, &unfit) {
		return unfit, nil
	}
	a.answer.Chosen = result.SuggestedHost
	return nil, err
}

// tellNodes goes the scheduler's way once more, in steps, and tells what each node comes to. Where
// no node will do the scheduler has told so itself.
func (a *attempt) tellNodes(ctx context.Context, unfit *framework.FitError) {
	nodes, err := a.snapshot.NodeInfos().List()
	if err != nil {
		a.fail(err)
		return
	}
	state := framework.NewCycleState()
	narrowed, status, plugins := a.profile.RunPreFilterPlugins(ctx, state, a.pod)
	if status.IsRejected() {
		a.answer.PreFilter = verdictOf(status, pluginOf(status, plugins))
	} else if !status.IsSuccess() {
		a.fail(status.AsError())
		return
	}
	if unfit != nil {
		for _, node := range nodes {
			name := node.Node().Name
			told := rejected(name, unfit.Diagnosis.NodeToStatus.Get(name))
			a.answer.Nodes = append(a.answer.Nodes, told)
		}
		return
	}
	a.scoreNodes(ctx, state, a.filterNodes(ctx, state, nodes, narrowed, plugins))
}

func (a *attempt) filterNodes(
	ctx context.Context, state fwk.CycleState, nodes []fwk.NodeInfo,
	narrowed *fwk.PreFilterResult, plugins sets.Set[string],
) (feasible []fwk.NodeInfo) {
	// The node that the pod is nominated to is tried first, whatever plugins narrow to, and who
	// rejects it is counted among those that narrowed.
	if node, err := a.snapshot.NodeInfos().Get(a.nominated()); err == nil && !narrowed.AllNodes() {
		status := a.profile.RunFilterPluginsWithNominatedPods(ctx, state, a.pod, node)
		if status.IsRejected() {
			plugins.Insert(status.Plugin())
		}
	}
	for _, node := range nodes {
		name := node.Node().Name
		if !narrowed.AllNodes() && !narrowed.NodeNames.Has(name) && name != a.nominated() {
			words := "node(s) didn't satisfy plugin(s) [" + strings.Join(sets.List(plugins), " ") + "]"
			out := rejected(name, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, words))
			a.answer.Nodes = append(a.answer.Nodes, out)
			continue
		}
		status := a.profile.RunFilterPluginsWithNominatedPods(ctx, state, a.pod, node)
		switch {
		case status.IsSuccess():
			feasible = append(feasible, node)
		case status.IsRejected(), a.answer.Chosen != "" && a.answer.Chosen == a.nominated():
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
		told := passed(score)
		a.tellDevices(ctx, state, &told)
		a.answer.Nodes = append(a.answer.Nodes, told)
		if score.TotalScore > best {
			best, a.answer.Best = score.TotalScore, nil
		}
		if score.TotalScore == best {
			a.answer.Best = append(a.answer.Best, score.Name)
		}
	}
	sorted(a.answer.Best)
	if a.answer.Chosen == a.nominated() {
		a.answer.Best = []string{a.answer.Chosen}
	}
}

func (a *attempt) nominated() string {
	return a.pod.Status.NominatedNodeName
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
