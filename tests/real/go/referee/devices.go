package main

import (
	"context"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	resourceclaim "k8s.io/dynamic-resource-allocation/resourceclaim"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// tellDevices tells which devices the pod would get on a feasible node: by claim, and all together
// with those for its extended resources. The devices are free again afterwards.
func (a *attempt) tellDevices(ctx context.Context, state fwk.CycleState, node *Node) {
	plugin := a.allocating()
	if plugin == nil {
		return
	}
	before, err := a.allocated()
	if err != nil {
		a.fail(err)
		return
	}
	if status := plugin.Reserve(ctx, state, a.pod, node.Name); !status.IsSuccess() {
		a.fail(status.AsError())
		return
	}
	after, err := a.allocated()
	if err != nil {
		a.fail(err)
		return
	}
	node.Devices = sets.List(after.Difference(before))
	claims := a.profile.SharedDRAManager().ResourceClaims()
	for i := range a.pod.Spec.ResourceClaims {
		name, _, err := resourceclaim.Name(a.pod, &a.pod.Spec.ResourceClaims[i])
		if err != nil || name == nil {
			continue
		}
		claim, err := claims.Get(a.pod.Namespace, *name)
		if err != nil {
			continue
		}
		if allocation := claims.GetPendingAllocation(claim.UID); allocation != nil {
			if node.Allocations == nil {
				node.Allocations = map[string]*resourcev1.AllocationResult{}
			}
			node.Allocations[*name] = allocation
		}
	}
	plugin.Unreserve(ctx, state, a.pod, node.Name)
}

// allocated lists the allocated devices; those that are shared once for each share.
func (a *attempt) allocated() (sets.Set[string], error) {
	found, err := a.profile.SharedDRAManager().ResourceClaims().GatherAllocatedState()
	if err != nil {
		return nil, err
	}
	all := sets.New[string]()
	for device := range found.AllocatedDevices {
		all.Insert(device.String())
	}
	return all, nil
}

func (a *attempt) allocating() fwk.ReservePlugin {
	for _, plugin := range a.profile.PreEnqueuePlugins() {
		if found, ok := plugin.(fwk.ReservePlugin); ok && plugin.Name() == names.DynamicResources {
			return found
		}
	}
	return nil
}
