package main

import (
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/core"
	corevalidation "k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/apis/policy"
	policyvalidation "k8s.io/kubernetes/pkg/apis/policy/validation"
	"k8s.io/kubernetes/pkg/apis/resource"
	resourcevalidation "k8s.io/kubernetes/pkg/apis/resource/validation"
	"k8s.io/kubernetes/pkg/apis/storage"
	storagevalidation "k8s.io/kubernetes/pkg/apis/storage/validation"
)

// validate says what a server would have against an object. The scheduler's answers about objects
// that no server stores mean nothing.
func validate(obj runtime.Object) error {
	switch obj.(type) {
	case *v1.Pod:
		return check(obj, &core.Pod{}, func(pod *core.Pod) field.ErrorList {
			options := podutil.GetValidationOptionsFromPodSpecAndMeta(&pod.Spec, nil, &pod.ObjectMeta, nil)
			return corevalidation.ValidatePodCreate(pod, options)
		})
	case *v1.Node:
		return check(obj, &core.Node{}, corevalidation.ValidateNode)
	case *v1.PersistentVolume:
		return check(obj, &core.PersistentVolume{}, func(volume *core.PersistentVolume) field.ErrorList {
			options := corevalidation.ValidationOptionsForPersistentVolume(volume, nil)
			return corevalidation.ValidatePersistentVolume(volume, options)
		})
	case *v1.PersistentVolumeClaim:
		return check(obj, &core.PersistentVolumeClaim{}, func(claim *core.PersistentVolumeClaim) field.ErrorList {
			options := corevalidation.ValidationOptionsForPersistentVolumeClaimCreate()
			return corevalidation.ValidatePersistentVolumeClaim(claim, options)
		})
	case *storagev1.StorageClass:
		return check(obj, &storage.StorageClass{}, storagevalidation.ValidateStorageClass)
	case *storagev1.CSINode:
		return check(obj, &storage.CSINode{}, storagevalidation.ValidateCSINode)
	case *policyv1.PodDisruptionBudget:
		return check(obj, &policy.PodDisruptionBudget{}, func(budget *policy.PodDisruptionBudget) field.ErrorList {
			return policyvalidation.ValidatePodDisruptionBudget(budget, policyvalidation.PodDisruptionBudgetValidationOptions{})
		})
	case *resourcev1.ResourceClaim:
		return check(obj, &resource.ResourceClaim{}, resourcevalidation.ValidateResourceClaim)
	case *resourcev1.ResourceSlice:
		return check(obj, &resource.ResourceSlice{}, resourcevalidation.ValidateResourceSlice)
	case *resourcev1.DeviceClass:
		return check(obj, &resource.DeviceClass{}, resourcevalidation.ValidateDeviceClass)
	}
	return nil
}

func check[T runtime.Object](obj runtime.Object, internal T, rules func(T) field.ErrorList) error {
	if err := legacyscheme.Scheme.Convert(obj, internal, nil); err != nil {
		return err
	}
	return rules(internal).ToAggregate()
}
