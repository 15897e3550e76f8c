package main

import (
	"encoding/json"
	"fmt"
	"reflect"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	_ "k8s.io/kubernetes/pkg/apis/resource/install"
	_ "k8s.io/kubernetes/pkg/apis/storage/install"
)

// readObjects reads the objects as a server would have stored them, and finds the pod in question,
// which stands on no node. Finished pods are left out: the scheduler never hears of them.
func readObjects(question Question) ([]runtime.Object, *v1.Pod, error) {
	var objects []runtime.Object
	var wanted *v1.Pod
	decoder := legacyscheme.Codecs.UniversalDeserializer()
	for i, raw := range question.Objects {
		obj, kind, err := decoder.Decode(raw, nil, nil)
		if err != nil {
			return nil, nil, fmt.Errorf("objects[%d]: %w", i, err)
		}
		legacyscheme.Scheme.Default(obj)
		if obj, err = stored(obj); err != nil {
			return nil, nil, fmt.Errorf("objects[%d]: %w", i, err)
		}
		if err := identify(obj, kind); err != nil {
			return nil, nil, fmt.Errorf("objects[%d]: %w", i, err)
		}
		if err := validate(obj); err != nil {
			return nil, nil, fmt.Errorf("objects[%d] (%s): %w", i, kind.Kind, err)
		}
		if pod, ok := obj.(*v1.Pod); ok {
			if pod.Namespace+"/"+pod.Name == question.Pod {
				wanted = pod
				pod.Spec.NodeName = ""
			} else if pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed {
				continue
			}
		}
		objects = append(objects, obj)
	}
	if wanted == nil {
		return nil, nil, fmt.Errorf("pod %q is not among the objects", question.Pod)
	}
	return objects, wanted, nil
}

// stored writes an object and reads it again: amounts that are not in canonical form behave
// otherwise in memory.
func stored(obj runtime.Object) (runtime.Object, error) {
	text, err := json.Marshal(obj)
	if err != nil {
		return nil, err
	}
	read := reflect.New(reflect.TypeOf(obj).Elem()).Interface().(runtime.Object)
	return read, json.Unmarshal(text, read)
}

// identify fills in what a server gives every object.
func identify(obj runtime.Object, kind *schema.GroupVersionKind) error {
	meta, err := meta.Accessor(obj)
	if err != nil {
		return err
	}
	if meta.GetUID() == "" {
		meta.SetUID(types.UID(kind.Kind + "/" + meta.GetNamespace() + "/" + meta.GetName()))
	}
	if meta.GetResourceVersion() == "" {
		meta.SetResourceVersion("1")
	}
	return nil
}
