package controllers

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/castoff-sh/castoff/api/v1alpha1"
)

func TestTemplatesPredicate(t *testing.T) {
	job := func(generation int64, owner string) *batchv1.Job {
		j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "j", Generation: generation}}
		if owner != "" {
			j.OwnerReferences = []metav1.OwnerReference{{Kind: owner, Name: "o", Controller: ptr.To(true)}}
		}
		return j
	}
	p := templates()
	cases := map[string]struct {
		reason    string
		got, want bool
	}{
		"New":       {"a new workload may straddle two waves", p.Create(event.CreateEvent{Object: job(1, "")}), true},
		"OfCronJob": {"a CronJob's Jobs have its template, every minute once more", p.Create(event.CreateEvent{Object: job(1, "CronJob")}), false},
		"OfOther":   {"one of an operator's has whatever it has", p.Create(event.CreateEvent{Object: job(1, "Workflow")}), true},
		"Changed":   {"another spec is another template", p.Update(event.UpdateEvent{ObjectOld: job(1, ""), ObjectNew: job(2, "")}), true},
		"Status":    {"a status is none", p.Update(event.UpdateEvent{ObjectOld: job(1, ""), ObjectNew: job(1, "")}), false},
		"Gone":      {"what is gone may have held up the next change of hands", p.Delete(event.DeleteEvent{Object: job(1, "")}), true},
	}
	for name, tc := range cases {
		if tc.got != tc.want {
			t.Errorf("%s: %s: passes %t, want %t", name, tc.reason, tc.got, tc.want)
		}
	}
}

func TestWhoIsWokenByWorkloads(t *testing.T) {
	at := metav1.NewTime(time.Unix(0, 0))
	served, waiting := v1alpha1.WaveStatus{Name: "wave-1", ServedTime: &at}, v1alpha1.WaveStatus{Name: "wave-2"}
	cases := map[string]struct {
		reason string
		waves  []v1alpha1.WaveStatus
		want   int
	}{
		"Between":  {"the second wave is still to change hands", []v1alpha1.WaveStatus{served, waiting}, 1},
		"Before":   {"so are both", []v1alpha1.WaveStatus{waiting, waiting}, 1},
		"After":    {"nothing is any more", []v1alpha1.WaveStatus{served, served}, 0},
		"OneWave":  {"all pools change hands at once, whatever comes", []v1alpha1.WaveStatus{waiting}, 0},
		"NotBegun": {"the plan is made anew at every look", nil, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			apply(t, w)
			m := w.migration().DeepCopy()
			m.Status.Waves = tc.waves
			w.c.put(m)
			r := w.reconciler()
			r.Observer.templates.until = w.now.Add(time.Hour)
			got := r.betweenWaves(t.Context(), nil)
			if len(got) != tc.want {
				t.Errorf("%s: %d Migrations are woken, want %d", tc.reason, len(got), tc.want)
			}
			if forgotten := r.Observer.templates.until.IsZero(); forgotten != (tc.want > 0) {
				t.Errorf("%s: what was read of workloads is forgotten: %t", tc.reason, forgotten)
			}
		})
	}
}
