package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/apps"
	"k8s.io/client-go/informers/core"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/informers/policy"
	"k8s.io/client-go/informers/resource"
	"k8s.io/client-go/informers/storage"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	configscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	configvalidation "k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

const profileName = "default-scheduler"

// cluster is a scheduler that knows the objects and does nothing by itself.
type cluster struct {
	scheduler *scheduler.Scheduler
	profile   framework.Framework
	snapshot  *internalcache.Snapshot
}

func newCluster(
	ctx context.Context, objects []runtime.Object, config []byte,
) (*cluster, error) {
	every := int32(100)
	options := []scheduler.Option{scheduler.WithPercentageOfNodesToScore(&every)}
	if len(config) > 0 {
		read, err := readConfig(config)
		if err != nil {
			return nil, err
		}
		options = append(options, scheduler.WithProfiles(read.Profiles...),
			scheduler.WithComponentConfigVersion(read.TypeMeta.APIVersion))
	}
	client := fake.NewSimpleClientset(objects...)
	factory := &attentive{SharedInformerFactory: scheduler.NewInformerFactory(client, 0)}
	made, err := scheduler.New(ctx, client, factory, nil, silent, options...)
	if err != nil {
		return nil, err
	}
	factory.StartWithContext(ctx)
	factory.awaitHandlers(ctx)
	profile := made.Profiles[profileName]
	snapshot := profile.SnapshotSharedLister().(*internalcache.Snapshot)
	if err := made.Cache.UpdateSnapshot(klog.FromContext(ctx), snapshot); err != nil {
		return nil, err
	}
	return &cluster{made, profile, snapshot}, nil
}

// readConfig reads a KubeSchedulerConfiguration as the scheduler reads its file.
func readConfig(text []byte) (*schedulerconfig.KubeSchedulerConfiguration, error) {
	obj, kind, err := configscheme.Codecs.UniversalDecoder().Decode(text, nil, nil)
	if err != nil {
		return nil, err
	}
	config, ok := obj.(*schedulerconfig.KubeSchedulerConfiguration)
	if !ok {
		return nil, fmt.Errorf("config: got a %s", kind)
	}
	config.TypeMeta.APIVersion = kind.GroupVersion().String()
	return config, configvalidation.ValidateKubeSchedulerConfiguration(config)
}

func silent(string) events.EventRecorderLogger {
	return &events.FakeRecorder{}
}

// attentive is an informer factory that can wait until every handler has been told everything.
type attentive struct {
	informers.SharedInformerFactory
	lock     sync.Mutex
	handlers []cache.ResourceEventHandlerRegistration
}

func (f *attentive) Apps() apps.Interface         { return apps.New(f, "", nil) }
func (f *attentive) Core() core.Interface         { return core.New(f, "", nil) }
func (f *attentive) Policy() policy.Interface     { return policy.New(f, "", nil) }
func (f *attentive) Resource() resource.Interface { return resource.New(f, "", nil) }
func (f *attentive) Storage() storage.Interface   { return storage.New(f, "", nil) }

func (f *attentive) InformerFor(
	obj runtime.Object, make internalinterfaces.NewInformerFunc,
) cache.SharedIndexInformer {
	return &overheard{f.SharedInformerFactory.InformerFor(obj, make), f}
}

func (f *attentive) awaitHandlers(ctx context.Context) {
	f.WaitForCacheSyncWithContext(ctx)
	f.lock.Lock()
	defer f.lock.Unlock()
	for _, handler := range f.handlers {
		<-handler.HasSyncedChecker().Done()
	}
}

func (f *attentive) remember(handler cache.ResourceEventHandlerRegistration) {
	f.lock.Lock()
	defer f.lock.Unlock()
	f.handlers = append(f.handlers, handler)
}

// overheard is an informer whose handlers are remembered.
type overheard struct {
	cache.SharedIndexInformer
	factory *attentive
}

func (i *overheard) AddEventHandler(
	handler cache.ResourceEventHandler,
) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(handler, cache.HandlerOptions{})
}

func (i *overheard) AddEventHandlerWithResyncPeriod(
	handler cache.ResourceEventHandler, _ time.Duration,
) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(handler, cache.HandlerOptions{})
}

func (i *overheard) AddEventHandlerWithOptions(
	handler cache.ResourceEventHandler, options cache.HandlerOptions,
) (cache.ResourceEventHandlerRegistration, error) {
	added, err := i.SharedIndexInformer.AddEventHandlerWithOptions(handler, options)
	if err == nil {
		i.factory.remember(added)
	}
	return added, err
}
